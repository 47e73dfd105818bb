//! Rules stop walking lists once there are more errors than are reported. This test scans the sources, because the
//! types do not enforce it.

use std::path::{Path, PathBuf};

#[test]
fn rules_iterate_while_errors_have_room() {
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [kinds.join("src"), kinds.join("../../machinery/validation/src")] {
        for file in sources(&folder) {
            let text = std::fs::read_to_string(&file).expect("a source can be read");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(open_walks(text).into_iter().map(|line| format!("{}:{line}", file.display())));
        }
    }
    assert!(found.is_empty(), "walk these with errors.while_room(...):\n{}", found.join("\n"));
}

#[test]
fn finds_unbounded_iterations() {
    let rule = |walk: &str| {
        format!("fn rule(errors: &mut FieldErrors) {{\n    for x in {walk} {{\n        check(x, errors);\n    }}\n}}\n")
    };
    for (walk, count) in [
        ("list.iter().enumerate()", 1),
        ("items(object, \"list\", path)", 1),
        ("errors.while_room(list)", 0),
        ("[\"a\", \"b\"]", 0),
        ("FIELDS", 0),
    ] {
        assert_eq!(open_walks(&rule(walk)).len(), count, "{walk}");
    }
}

/// Returns the lines of loops that add errors and never stop early: all except loops over `errors.while_room`, over a
/// literal or constant, and over names that are known to be short.
fn open_walks(text: &str) -> Vec<usize> {
    // Fixed names of fields and lists, messages about one value, and lists that were truncated before.
    const SHORT: [&str; 17] = [
        "0..misfits(",
        "fields",
        "sources",
        "lists",
        "kinds",
        "secrets",
        "pairs",
        "required",
        "limits",
        "messages",
        "blocks",
        "names::",
        "trust_bundle_name(",
        "bounded(",
        "DECISIONS",
        "NAMES",
        "if prefixed",
    ];
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("for ")) {
        let indent = line.len() - line.trim_start().len();
        let ends = |line: &&str| line.len() - line.trim_start().len() == indent && line.trim_start().starts_with('}');
        let Some(length) = lines[at + 1..].iter().position(ends) else { continue };
        let whole = lines[at..at + 1 + length].join("\n");
        let Some((_, walk)) = whole.split_once(" in ").or_else(|| whole.split_once(" in\n")) else { continue };
        let (walk, body) = walk.split_once(" {\n").or_else(|| walk.split_once("\n")).unwrap_or((walk, ""));
        let walk = walk.trim_start().trim_start_matches('&');
        let adds = body.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "errors");
        let constant =
            walk.split('.').next().is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        let short = constant || walk.starts_with('[') || SHORT.iter().any(|name| walk.starts_with(name));
        if adds && !short && !walk.contains("errors.while_room(") {
            found.push(at + 1);
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
