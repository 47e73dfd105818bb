//! `cargo xtask language`: checks the words of pages, help texts, comments and names by the list in `xtask/phrases.tsv`.
//!
//! The list is short on purpose: it holds what readers of this project stumbled over. Quoted words (code spans, code blocks,
//! strings in code) are exempt, since many of them are kube-apiserver's.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches};
use regex::{Regex, RegexBuilder};

use crate::{markdown, process};

const RULES: &str = "xtask/phrases.tsv";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("language")
        .about("Checks the words of pages, help texts, comments and names")
        .arg(Arg::new("program").action(ArgAction::Append).help("Program whose --help is checked as well"))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = process::root();
    let rules = Rules::read(&root.join(RULES))?;
    let mut offences = Vec::new();
    let tracked = process::output(Command::new("git").current_dir(&root).args(["ls-files", "*.rs", "*.md"]))?;
    for name in tracked.lines() {
        let path = root.join(name);
        let text = std::fs::read_to_string(&path).map_err(|error| process::problem("read", &path, &error))?;
        if name.ends_with(".md") {
            rules.check_text(name, markdown::paragraphs(&text), &mut offences);
        } else {
            rules.check_text(name, comments(&text), &mut offences);
            rules.check_names(name, &text, &mut offences);
        }
    }
    for program in matches.get_many::<String>("program").into_iter().flatten() {
        let help = process::output(Command::new(program).arg("--help"))?;
        let lines = help.lines().enumerate().map(|(n, line)| (n + 1, line.to_owned()));
        rules.check_text(&format!("{program} --help"), lines, &mut offences);
    }
    if offences.is_empty() { Ok(()) } else { Err(offences.join("\n")) }
}

#[derive(Default)]
struct Rules {
    /// Phrases to avoid, and better ones.
    phrases: Vec<(Regex, String)>,
    /// Names of types to avoid, apart from the exceptions, and better ones.
    types: Vec<(Regex, String)>,
    exceptions: BTreeSet<String>,
}

// === impl Rules ===

impl Rules {
    fn read(path: &Path) -> Result<Self, String> {
        Self::parse(&std::fs::read_to_string(path).map_err(|error| process::problem("read", path, &error))?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut fields = line.splitn(3, '\t');
            let (Some(kind), Some(pattern), Some(better)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(format!("{RULES}: not three fields: {line}"));
            };
            let regex = RegexBuilder::new(pattern).case_insensitive(kind == "text").build();
            let regex = regex.map_err(|error| format!("{RULES}: {error}"));
            match kind {
                "text" => rules.phrases.push((regex?, better.to_owned())),
                "type" => rules.types.push((regex?, better.to_owned())),
                "established" => rules.exceptions.extend(pattern.split(' ').map(str::to_owned)),
                _ => return Err(format!("{RULES}: unknown kind {kind}")),
            }
        }
        Ok(rules)
    }

    fn check_text(&self, file: &str, texts: impl Iterator<Item = (usize, String)>, offences: &mut Vec<String>) {
        for (line, text) in texts {
            for (phrase, better) in &self.phrases {
                if let Some(found) = phrase.find(&text) {
                    offences.push(format!("{file}:{line}: \"{}\": {better}", found.as_str().trim()));
                }
            }
        }
    }

    /// Checks the names of types, and that names of tests are claims: they have more than one word.
    fn check_names(&self, file: &str, code: &str, offences: &mut Vec<String>) {
        let mut is_test = false;
        for (number, line) in code.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                continue;
            }
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let Some(keyword) =
                words.find(|word| !matches!(*word, "pub" | "crate" | "super" | "" | "async" | "unsafe"))
            else {
                continue;
            };
            let name = words.next().unwrap_or_default();
            match keyword {
                // Tests that a macro names, and processes that tests start by the names of tests, are no claims.
                "fn" if is_test && !name.is_empty() && !name.contains('_') && !self.exceptions.contains(name) => {
                    offences.push(format!("{file}:{}: test \"{name}\": say what is true if it passes", number + 1));
                }
                "struct" | "enum" | "trait" | "type" if !self.exceptions.contains(name) => {
                    if let Some((_, better)) = self.types.iter().find(|(pattern, _)| pattern.is_match(name)) {
                        offences.push(format!("{file}:{}: type \"{name}\": {better}", number + 1));
                    }
                }
                _ => {}
            }
            is_test = false;
        }
    }
}

/// Returns the comments that have their lines to themselves, without code, each with its first line's number.
fn comments(code: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    let lines = code.lines().enumerate().filter_map(move |(number, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            fenced = false;
            return None;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        let fence = comment.starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((number + 1, comment))
    });
    markdown::join_lines(lines, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str =
        "text\t\\bis told\\b\tis configured\ntype\t^[A-Z][a-z]+ed$\ta noun\nestablished\tShared\tas in hyper\n";

    fn offences(code: &str) -> Vec<String> {
        let (rules, mut offences) = (Rules::parse(RULES).unwrap(), Vec::new());
        rules.check_text("a.rs", comments(code), &mut offences);
        rules.check_names("a.rs", code, &mut offences);
        offences
    }

    #[test]
    fn finds_phrases_over_line_breaks() {
        let found = offences("fn a() {}\n\n// What it is\n// told.\n");
        assert_eq!(found, ["a.rs:3: \"is told\": is configured"]);
    }

    #[test]
    fn exempts_code_in_comments_and_strings() {
        assert!(
            offences("/// `is told`\n///\n/// ```\n/// is told\n/// ```\nlet a = \"is told\"; // is told\n").is_empty()
        );
    }

    #[test]
    fn rejects_participles_as_names_of_types() {
        let found = offences("pub(crate) struct Watched<T>(T);\nstruct Shared;\nenum WatchedRange {}\n");
        assert_eq!(found, ["a.rs:1: type \"Watched\": a noun"]);
    }

    #[test]
    fn rejects_test_names_of_one_word() {
        let found = offences(
            "#[tokio::test]\n#[ignore]\nasync fn errors() {}\n#[test]\nfn keeps_errors() {}\nfn errors() {}\n",
        );
        assert_eq!(found, ["a.rs:3: test \"errors\": say what is true if it passes"]);
    }
}
