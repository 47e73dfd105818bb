//! Man pages of section 8: one of the program, one of each of its commands.

use std::collections::BTreeMap;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::manual::{Paragraph, Section};

const SECTION: &str = "8";
const MANUAL: &str = "Binnacle";

/// Returns the pages by their file names.
pub(crate) fn pages(command: &Command, sections: &[Section]) -> BTreeMap<String, String> {
    let mut program = command.clone().disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().map(|part| page(part, command, &[]));
    commands.chain([page(&program, command, sections)]).collect()
}

/// Returns file name and text of the page of a program or of one of its commands.
fn page(part: &Command, program: &Command, sections: &[Section]) -> (String, String) {
    let man = Man::new(part.clone()).section(SECTION);
    let name = part.get_display_name().unwrap_or_else(|| part.get_name());
    let version = program.get_version().unwrap_or_default();
    // Without a date, which the crate could not leave out: pages of one version are equal.
    let mut text = format!(".TH {name} {SECTION} \"\" \"{} {version}\" {MANUAL}\n", program.get_name()).into_bytes();
    man.render_name_section(&mut text).unwrap();
    man.render_synopsis_section(&mut text).unwrap();
    man.render_description_section(&mut text).unwrap();
    man.render_options_section(&mut text).unwrap();
    if part.has_subcommands() {
        man.render_subcommands_section(&mut text).unwrap();
    }
    section_text(sections).to_writer(&mut text).unwrap();
    (man.get_filename(), once(&String::from_utf8(text).unwrap()))
}

/// Removes roff's preamble from all parts of a page except the first.
fn once(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if !PREAMBLE.contains(&line) || !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

/// The lines that define an apostrophe.
const PREAMBLE: [&str; 2] = [r".ie \n(.g .ds Aq \(aq", r".el .ds Aq '"];

fn section_text(sections: &[Section]) -> Roff {
    let mut roff = Roff::new();
    for (heading, paragraphs) in sections {
        roff.control("SH", [*heading]);
        for (at, paragraph) in paragraphs.iter().enumerate() {
            match paragraph {
                Paragraph::Text(text) => {
                    if at > 0 {
                        roff.control("PP", []);
                    }
                    roff.text([roman(*text)]);
                }
                Paragraph::Item(term, text) => {
                    roff.control("TP", []);
                    roff.text([bold(*term)]);
                    roff.text([roman(*text)]);
                }
                Paragraph::Example(line) => {
                    roff.control("PP", []);
                    roff.control("RS", ["4"]);
                    roff.control("nf", []);
                    roff.text([roman(*line)]);
                    roff.control("fi", []);
                    roff.control("RE", []);
                }
            }
        }
    }
    roff
}
