//! `cargo xtask metadata`: the version and the address of the repository, which `Cargo.toml` sets for the files of
//! other tools, too.

use std::fs;
use std::path::Path;

use clap::{Arg, ArgMatches};

use crate::process::{cargo, finish, problem, root};

const MANIFEST: &str = "Cargo.toml";
/// The files that state the version, and the text before it on its line.
const VERSIONS: [(&str, &str); 3] =
    [(MANIFEST, "version = \""), ("python/pyproject.toml", "version = \""), ("npm/package.json", "  \"version\": \"")];
const REPOSITORY: &str = "repository = \"";
/// The files that name the repository.
const NAMING: [&str; 5] =
    [MANIFEST, "README.md", "python/pyproject.toml", "npm/package.json", ".github/ISSUE_TEMPLATE/config.yml"];
/// The file that names the owner of the repository: people and teams.
const OWNERS: &str = ".github/CODEOWNERS";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("metadata")
        .about("Sets the version or the repository's address in all files that state them")
        .arg(
            Arg::new("version")
                .long("version")
                .value_name("VERSION")
                .help("The version of the next release, such as 0.2.0"),
        )
        .arg(
            Arg::new("repository").long("repository").value_name("URL").help("Address of the repository, without .git"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = root();
    if let Some(repository) = matches.get_one::<String>("repository") {
        set_repository(&root, repository)?;
    }
    if let Some(version) = matches.get_one::<String>("version") {
        set_version(&root, version)?;
        for folder in [root.clone(), root.join("fuzz")] {
            finish(cargo(&folder).args(["update", "--workspace", "--offline", "--quiet"]))?;
        }
    }
    let manifest = read(&root, MANIFEST)?;
    println!("version {}, repository {}", value(&manifest, VERSIONS[0].1)?, value(&manifest, REPOSITORY)?);
    Ok(())
}

fn set_version(root: &Path, version: &str) -> Result<(), String> {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    if numbers.split('.').filter(|part| part.parse::<u32>().is_ok()).count() != 3 {
        return Err(format!("'{version}' is not a version such as 0.2.0 or 0.2.0-rc.1"));
    }
    for (file, before) in VERSIONS {
        let text = read(root, file)?;
        let old = value(&text, before)?;
        write(root, file, &text.replacen(&format!("{before}{old}\""), &format!("{before}{version}\""), 1))?;
    }
    Ok(())
}

fn set_repository(root: &Path, repository: &str) -> Result<(), String> {
    let new_owner = owner(repository)?;
    let old = value(&read(root, MANIFEST)?, REPOSITORY)?.to_owned();
    let old_owner = owner(&old)?;
    for file in NAMING {
        write(root, file, &read(root, file)?.replace(&old, repository))?;
    }
    let owners = read(root, OWNERS)?.replace(&format!("@{old_owner}/"), &format!("@{new_owner}/"));
    write(root, OWNERS, &owners)
}

/// Returns the owner in an address such as `https://forge.example/owner/name`.
fn owner(repository: &str) -> Result<&str, String> {
    let wrong = || format!("'{repository}' is not an address such as https://forge.example/owner/name");
    let path = repository.strip_prefix("https://").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?.1;
    match path.split('/').collect::<Vec<_>>()[..] {
        [owner, name] if !owner.is_empty() && !name.is_empty() && !name.ends_with(".git") => Ok(owner),
        _ => Err(wrong()),
    }
}

/// Returns the first value after a text at the start of a line, up to a quote.
fn value<'t>(text: &'t str, before: &str) -> Result<&'t str, String> {
    let found = text.lines().find_map(|line| line.strip_prefix(before)?.split('"').next());
    found.ok_or_else(|| format!("no line begins with {before}"))
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(|error| problem("read", &path, &error))
}

fn write(root: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = root.join(file);
    fs::write(&path, text).map_err(|error| problem("write", &path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_state_the_same_version_and_repository() {
        let root = root();
        for (file, before) in VERSIONS {
            assert_eq!(value(&read(&root, file).unwrap(), before).unwrap(), env!("CARGO_PKG_VERSION"), "{file}");
        }
        let repository = env!("CARGO_PKG_REPOSITORY");
        for file in NAMING {
            assert!(read(&root, file).unwrap().contains(repository), "{file} does not name {repository}");
        }
        let team = format!("@{}/", owner(repository).unwrap());
        let owners = read(&root, OWNERS).unwrap();
        let lines = owners.lines().filter(|line| line.starts_with(['/', '*']));
        assert!(lines.clone().count() > 5);
        for line in lines {
            assert!(line.split_whitespace().skip(1).all(|owner| owner.starts_with(&team)), "{line}");
        }
    }

    #[test]
    fn every_registry_gets_the_licence() {
        let root = root();
        let licence = read(&root, "LICENSE").unwrap();
        for folder in ["python", "npm", "crates/testing/testing"] {
            assert!(read(&root, &format!("{folder}/LICENSE")).unwrap() == licence, "{folder}/LICENSE differs");
        }
    }

    #[test]
    fn sets_version_and_repository() {
        let temp = tempfile::tempdir().unwrap();
        for file in NAMING.iter().chain([&OWNERS]) {
            let path = temp.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::copy(root().join(file), path).unwrap();
        }
        set_version(temp.path(), "1.2.3-rc.1").unwrap();
        set_repository(temp.path(), "https://forge.test/someone/other").unwrap();
        for (file, before) in VERSIONS {
            assert_eq!(value(&read(temp.path(), file).unwrap(), before).unwrap(), "1.2.3-rc.1", "{file}");
        }
        for file in NAMING {
            let text = read(temp.path(), file).unwrap();
            assert!(text.contains("https://forge.test/someone/other"), "{file}");
            assert!(!text.contains(env!("CARGO_PKG_REPOSITORY")), "{file}");
        }
        assert!(read(temp.path(), OWNERS).unwrap().contains(" @someone/"));
        assert!(set_version(temp.path(), "1.2").is_err());
        for wrong in ["https://forge.test/name", "git@forge.test:a/b", "https://forge.test/a/b.git"] {
            assert!(set_repository(temp.path(), wrong).is_err(), "{wrong}");
        }
    }
}
