//! Links and anchors of pages in Markdown, as far as this repository writes them: inline links, headings with `#`.

/// A link or image of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its line, counted from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// The links of a page, without those in code.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (number, line) in prose(page) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, behind)) = after.split_once(')') else { break };
            links.push(Link { line: number, target: target.to_owned() });
            rest = behind;
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(page) {
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(heading) = line[hashes..].strip_prefix(' ').filter(|_| (1..=6).contains(&hashes)) else { continue };
        let anchor = anchor(heading.trim());
        let repeated = |n: usize| if n == 0 { anchor.clone() } else { format!("{anchor}-{n}") };
        let free = (0..).map(repeated).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// The path of a link's page from the root, and its anchor. `None` if it leaves the repository's tree.
pub(crate) fn resolve(page: &str, target: &str) -> Option<(String, Option<String>)> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some((parts.join("/"), anchor))
}

/// True if the target is an address, not a path.
pub(crate) fn is_address(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The lines outside of fenced code, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced && !line.starts_with("    ")).then_some((number + 1, line))
    })
}

/// Returns the paragraphs outside of code blocks, without code spans, each with its first line's number. A row of a table, a
/// heading and an item of a list are paragraphs as well.
pub(crate) fn paragraphs(page: &str) -> impl Iterator<Item = (usize, String)> {
    join_lines(prose(page), |line| {
        line.starts_with(['|', '#', '-', '*', '>']) || line.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Joins successive lines, without code spans, up to an empty line or one that `begins` a text of its own. Returns each text
/// with its first line's number.
pub(crate) fn join_lines<'t>(
    lines: impl Iterator<Item = (usize, &'t str)>,
    begins: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (usize, String)> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line) in lines {
        let line = line.trim();
        let is_new = number != last + 1 || begins(line);
        last = if line.is_empty() { 0 } else { number };
        match texts.last_mut().filter(|_| !is_new) {
            _ if line.is_empty() => {}
            Some((_, text)) => {
                text.push(' ');
                text.push_str(line);
            }
            None => texts.push((number, line.to_owned())),
        }
    }
    texts.into_iter().map(|(line, text)| (line, without_code(&text)))
}

/// The line with its code spans emptied.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().filter(|(n, _)| n % 2 == 0).map(|(_, part)| part).collect::<Vec<_>>().join("``")
}

fn anchor(heading: &str) -> String {
    // A link in a heading counts by its text.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    text.push_str(rest);
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links() {
        let cases: [(&str, &[&str], &str); 6] = [
            ("a [b](c.md) d", &["c.md"], "a link"),
            ("![b](c.svg) and [d](e.md#f)", &["c.svg", "e.md#f"], "two in a line"),
            ("[`b`](c.md)", &["c.md"], "its text may be code"),
            ("`[b](c.md)`", &[], "code"),
            ("    [b](c.md)", &[], "an indented block"),
            ("```sh\n[b](c.md)\n```\n[d](e.md)", &["e.md"], "a fenced block"),
        ];
        for (page, want, why) in cases {
            let found: Vec<String> = links(page).into_iter().map(|link| link.target).collect();
            assert_eq!(found, want, "{why}: {page}");
        }
        assert_eq!(links("\n\n[a](b)")[0].line, 3);
    }

    #[test]
    fn derives_anchors_like_github() {
        let cases: [(&str, &[&str]); 5] = [
            ("# The data directory", &["the-data-directory"]),
            ("## `kubectl` exec, or not?", &["kubectl-exec-or-not"]),
            ("# A\n## A\n## A", &["a", "a-1", "a-2"]),
            ("```\n# a comment\n```", &[]),
            ("## See [this](page.md)", &["see-this"]),
        ];
        for (page, want) in cases {
            assert_eq!(anchors(page), want, "{page}");
        }
    }

    #[test]
    fn resolves_links() {
        let path = |path: &str, anchor: Option<&str>| Some((path.to_owned(), anchor.map(str::to_owned)));
        assert_eq!(resolve("docs/a.md", "b.md"), path("docs/b.md", None));
        assert_eq!(resolve("docs/a.md", "#c"), path("docs/a.md", Some("c")));
        assert_eq!(resolve("docs/a.md", "../README.md#c"), path("README.md", Some("c")));
        assert_eq!(resolve("README.md", "../x"), None);
    }
}
