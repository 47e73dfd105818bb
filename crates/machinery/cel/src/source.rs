//! The text of an expression with its lines and errors, in the format of cel-go.

use std::fmt;

/// A position in an expression: lines begin with 1, columns with 0, both in code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: i32,
    pub column: i32,
}

impl Location {
    /// The position of errors that concern the whole expression.
    pub const NONE: Self = Self { line: -1, column: -1 };
}

/// An expression as code points.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) chars: Vec<char>,
    /// The starts of all lines except the first.
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let line_starts = chars.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(i, _)| i + 1).collect();
        Self { chars, line_starts }
    }

    pub(crate) fn location(&self, offset: usize) -> Location {
        // The end of an empty text is before its first column.
        if self.chars.is_empty() {
            return Location { line: 1, column: -1 };
        }
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = if line == 0 { 0 } else { self.line_starts[line - 1] };
        Location { line: line as i32 + 1, column: (offset - start) as i32 }
    }

    /// Returns a line without its end.
    fn line(&self, line: i32) -> Option<&[char]> {
        if line < 1 || self.chars.is_empty() {
            return None;
        }
        let index = line as usize - 1;
        let start = if index == 0 { 0 } else { *self.line_starts.get(index - 1)? };
        let end = self.line_starts.get(index).map_or(self.chars.len(), |next| next - 1);
        self.chars.get(start..end)
    }
}

/// One error of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub location: Location,
    pub message: String,
}

/// All errors of an expression. Displayed in the format of cel-go, `ERROR: <input>:1:5: undefined field 'x'` with the
/// line and a mark under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileErrors {
    /// Sorted by position.
    pub issues: Vec<Issue>,
    /// The number of further errors.
    truncated: usize,
    text: String,
}

impl CompileErrors {
    /// Sorts the errors by position and formats them.
    pub(crate) fn new(source: &Source, issues: Issues) -> Self {
        let Issues { mut list, count } = issues;
        let truncated = count - list.len();
        list.sort_by_key(|issue| issue.location);
        let mut text: Vec<String> = list.iter().map(|issue| show(source, issue)).collect();
        if truncated > 0 {
            text.push(format!("{truncated} more errors were truncated"));
        }
        Self { issues: list, truncated, text: text.join("\n") }
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CompileErrors {}

/// Collects errors, up to the number that is reported.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    list: Vec<Issue>,
    count: usize,
}

const MAX_ISSUES: usize = 100;
/// The limit on lines that messages show.
const MAX_SNIPPET: usize = 16384;

impl Issues {
    pub(crate) fn add(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_ISSUES {
            self.list.push(Issue { location, message: message.into() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn show(source: &Source, issue: &Issue) -> String {
    let Location { line, column } = issue.location;
    let mut out = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    let Some(snippet) = source.line(line).filter(|l| l.iter().map(|c| c.len_utf8()).sum::<usize>() <= MAX_SNIPPET)
    else {
        return out;
    };
    out.push_str("\n | ");
    out.extend(snippet.iter().map(|c| if *c == '\t' { ' ' } else { *c }));
    out.push_str("\n | ");
    // Characters of more than one byte count as wide.
    let wide = |c: &char| c.len_utf8() > 1;
    let column = column.max(0) as usize;
    out.extend(snippet.iter().take(column).map(|c| if wide(c) { '\u{ff0e}' } else { '.' }));
    out.push(if snippet.get(column).is_some_and(wide) { '\u{ff3e}' } else { '^' });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_errors_with_source_snippets() {
        let source = Source::new("a &&\n\tbé.x");
        let mut issues = Issues::default();
        issues.add(source.location(8), "undefined field 'x'");
        issues.add(source.location(2), "first");
        issues.add(Location::NONE, "whole");
        assert_eq!(
            CompileErrors::new(&source, issues).to_string(),
            "ERROR: <input>:-1:0: whole\n\
             ERROR: <input>:1:3: first\n | a &&\n | ..^\n\
             ERROR: <input>:2:4: undefined field 'x'\n |  bé.x\n | ..\u{ff0e}^"
        );
    }
}
