//! For tests only: man pages and shell completions of the programs, made from their descriptions for clap.
//!
//! The files are committed in `packaging/manual`, because packages are also made for machines that cannot run the
//! programs. A test of each program compares them; `cargo xtask manual` regenerates them.

#![allow(clippy::unwrap_used, reason = "what cannot be made fails the test")]

mod completion;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Command;

/// The environment variable that makes [`compare`] write the files first.
pub const WRITE: &str = "BINNACLE_WRITE_MANUAL";

/// A section of a man page beside those that follow from the flags: its heading, and paragraphs.
pub type Section = (&'static str, &'static [Paragraph]);

/// A paragraph of a man page.
pub enum Paragraph {
    Text(&'static str),
    /// A term and its description.
    Item(&'static str, &'static str),
    /// A command line.
    Example(&'static str),
}

/// Panics if the files of a program in `packaging/manual` differ from those that its description gives. `sections`
/// stand in the page of the program itself, behind its flags.
pub fn compare(command: &Command, sections: &[Section]) {
    let folder = folder();
    let mut files = page::pages(command, sections);
    files.extend(completion::scripts(command));
    if std::env::var_os(WRITE).is_some() {
        write(&folder, command.get_name(), &files);
    }
    for (name, want) in &files {
        let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(found == *want, "packaging/manual/{name} is out of date: run cargo xtask manual");
    }
}

fn write(folder: &Path, program: &str, files: &BTreeMap<String, String>) {
    std::fs::create_dir_all(folder).unwrap();
    // Remove pages of commands that no longer exist.
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with(&format!("{program}-")) && !files.contains_key(&name) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/manual")
}
