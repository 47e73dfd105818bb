//! Go's regular expressions, on the engine of the `regex` crate.

use binnacle_validation::go_regexp;
use regex::{Regex, RegexBuilder};

use crate::error::Error;

/// The memory limit of a compiled expression, in bytes.
const MAX_COMPILED: usize = 2 * 1024 * 1024;

/// Compiles an expression.
///
/// # Errors
/// Go's error for the expression, or that it is too large.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Error> {
    go_regex(pattern, MAX_COMPILED)
}

/// Compiles an expression of Go into a machine with a size limit in bytes.
///
/// # Errors
/// Go's error for the expression, or that it is too large.
pub fn go_regex(pattern: &str, max_bytes: usize) -> Result<Regex, Error> {
    go_regexp::check(pattern).map_err(Error::new)?;
    RegexBuilder::new(&translate(pattern))
        .size_limit(max_bytes)
        .dfa_size_limit(max_bytes)
        .nest_limit(250)
        .build()
        .map_err(|_| Error::new(format!("error parsing regexp: expression is too large or not supported: `{pattern}`")))
}

/// Checks an expression, with Go's errors.
pub(crate) fn check(pattern: &str) -> Result<(), Error> {
    compile(pattern).map(drop)
}

/// Returns the expression in the syntax of the crate: in Go, classes such as `\d` are ASCII, `\Q` quotes, and a bracket
/// or brace that begins nothing is literal.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        rest = tail;
        match c {
            '\\' => rest = escape(tail, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if let Some(negated) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = negated;
                }
                // A leading closing bracket is literal.
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = after;
                }
            }
            '[' => match tail.starts_with(':').then(|| tail.find(":]")).flatten() {
                Some(end) => {
                    out.push('[');
                    out.push_str(&tail[..end + 2]);
                    rest = &tail[end + 2..];
                }
                None => out.push_str("\\["),
            },
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Set operators of the crate, which are literal in Go.
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && tail.starts_with('-') => out.push_str("\\-"),
            '{' if !in_class && !repetition(tail) => out.push_str("\\{"),
            '}' if !in_class && !out_ends_repetition(&out) => out.push_str("\\}"),
            c => out.push(c),
        }
    }
    out
}

/// Returns true if the rest of a repetition follows a brace.
fn repetition(tail: &str) -> bool {
    let Some((counts, _)) = tail.split_once('}') else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match counts.split_once(',') {
        Some((min, max)) => number(min) && (max.is_empty() || number(max)),
        None => number(counts),
    }
}

fn out_ends_repetition(out: &str) -> bool {
    out.rfind('{').is_some_and(|at| {
        let counts = &out[at + 1..];
        !counts.is_empty() && counts.bytes().all(|b| b.is_ascii_digit() || b == b',')
    }) || out.rfind("\\p{").or(out.rfind("\\P{")).or(out.rfind("\\x{")).is_some_and(|at| !out[at..].contains('}'))
}

fn escape<'p>(tail: &'p str, in_class: bool, out: &mut String) -> &'p str {
    let Some(c) = tail.chars().next() else { return tail };
    let after = &tail[c.len_utf8()..];
    let (class, standalone) = match c {
        'd' => ("0-9", "[0-9]"),
        's' => ("\\t\\n\\x0C\\r ", "[\\t\\n\\x0C\\r ]"),
        'w' => ("0-9A-Za-z_", "[0-9A-Za-z_]"),
        'D' => ("[^0-9]", "[^0-9]"),
        'S' => ("[^\\t\\n\\x0C\\r ]", "[^\\t\\n\\x0C\\r ]"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        'b' if !in_class => ("", "(?-u:\\b)"),
        'Q' => {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return after;
        }
        // Both have the same syntax for these, with and without braces.
        'p' | 'P' | 'x' => {
            out.push('\\');
            out.push(c);
            return match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
                Some((name, after)) => {
                    out.push_str(&format!("{{{name}}}"));
                    after
                }
                None => after,
            };
        }
        '0'..='7' => {
            let digits = tail.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let value = u32::from_str_radix(&tail[..digits], 8).unwrap_or(0);
            out.push_str(&format!("\\x{{{value:X}}}"));
            return &tail[digits..];
        }
        c => {
            if c.is_ascii() {
                out.push('\\');
            }
            out.push(c);
            return after;
        }
    };
    out.push_str(if in_class { class } else { standalone });
    after
}

/// Returns true if a pattern occurs in a text.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, Error> {
    // Patterns without special characters are common and need no machine.
    let plain = !pattern.bytes().any(|b| b"\\.+*?()|[]{}^$".contains(&b));
    if plain {
        return Ok(text.contains(pattern));
    }
    Ok(compile(pattern)?.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_syntax() {
        for (pattern, text, matches) in [
            (r"^\d+$", "٣", false),
            (r"^\d{2}$", "12", true),
            (r"^[\w-]+$", "a-b_9", true),
            (r"^[^\W]$", "é", false),
            (r"a{,2}", "a{,2}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"[a&&b]", "&", true),
            (r"[]a]", "]", true),
            (r"[[:alpha:]]", "q", true),
            (r"\x{41}\101", "AA", true),
            (r"\bfoo\b", "a foo b", true),
            (r"[a-z]{1,3}}", "abc}", true),
            (r"\pL", "é", true),
        ] {
            assert_eq!(is_match(pattern, text), Ok(matches), "{pattern} on {text}");
        }
        assert_eq!(is_match("a(b", "x").unwrap_err().to_string(), "error parsing regexp: missing closing ): `a(b`");
    }

    #[test]
    fn large_expressions_are_refused() {
        assert!(compile(r"((a{1000}){1000}){1000}").is_err());
        assert!(compile(&r"\pL{1000}".repeat(50)).is_err());
    }
}
