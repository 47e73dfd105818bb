//! The syntax of Go's regular expressions, with Go's syntax errors and limits.

mod class;
#[cfg(test)]
mod tests;
mod tree;
mod unicode;

use std::fmt;

use self::tree::Item;
pub use self::tree::{Class, ClassItem, Look, MAX_SIZE, NamedSet, Node, Tree, UNLIMITED};

const REPEAT_MAX: i64 = 1000;

/// The memory of a tree for each byte of its expression.
const BYTES_PER_BYTE: usize = 48;
/// The steps of parsing a byte.
const STEPS_PER_BYTE: u64 = 4;

/// Checks a regular expression; the error is the text of Go's `regexp.Compile`.
pub fn check(pattern: &str) -> Result<(), String> {
    binnacle_work::temporary(|| parse(pattern).map(drop))
}

/// Parses a regular expression; the error is the text of Go's `regexp.Compile`.
pub fn parse(pattern: &str) -> Result<Tree<'_>, String> {
    let charged = binnacle_work::charge(pattern.len() as u64 * STEPS_PER_BYTE)
        .and_then(|()| binnacle_work::allocate(pattern.len() * BYTES_PER_BYTE));
    charged.map_err(|exceeded| exceeded.to_string())?;
    let parser = Parser {
        pattern,
        rest: pattern,
        groups: vec![Group::default()],
        flags: Flags::default(),
        tree: Tree::default(),
    };
    parser.parse().map_err(|error| error.to_string())
}

struct Error<'a> {
    problem: &'static str,
    at: &'a str,
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.problem, self.at)
    }
}

const INVALID_CHAR_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT: &str = "invalid repeat count";

/// The flags `i`, `m`, `s` and `U`.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    fold: bool,
    lines: bool,
    dot_newline: bool,
    swap: bool,
}

/// An open group.
#[derive(Default)]
struct Group {
    /// The maximum number of times that the last item is repeated, including repetitions within it; `None` if there is
    /// no item that could be repeated.
    last: Option<i64>,
    /// The same maximum over all items before it.
    max_before: i64,
    /// The items of the current alternative.
    items: Vec<Item>,
    alternatives: Vec<Item>,
    captures: bool,
    /// The flags outside of the group.
    flags: Flags,
}

impl Group {
    fn push(&mut self, weight: i64, item: Item) {
        self.max_before = self.max_before.max(self.last.replace(weight).unwrap_or(0));
        self.items.push(item);
    }
}

struct Parser<'a> {
    pattern: &'a str,
    rest: &'a str,
    /// The open groups, beginning with the expression itself.
    groups: Vec<Group>,
    flags: Flags,
    tree: Tree<'a>,
}

type ParseResult<'a, T = ()> = Result<T, Error<'a>>;

impl<'a> Parser<'a> {
    fn parse(mut self) -> ParseResult<'a, Tree<'a>> {
        // The preceding repetition: two in a row are an error.
        let mut repetition = None;
        while let Some(next) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = false;
            match next {
                '(' if before.starts_with("(?") => self.perl_group()?,
                '(' => {
                    self.skip(1);
                    self.open(true, self.flags);
                }
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    let alternative = self.alternative()?;
                    let group = self.group();
                    group.alternatives.push(alternative);
                    group.max_before = group.max_before.max(group.last.take().unwrap_or(0));
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    let (min, max) = match next {
                        '*' => (0, -1),
                        '+' => (1, -1),
                        _ => (0, 1),
                    };
                    self.repeat(before, repetition, (min, max), false)?;
                    repeated = true;
                }
                '{' => match self.counts() {
                    Some((min, max)) => {
                        let at = before_end(before, self.rest);
                        if !(0..=REPEAT_MAX).contains(&min) || max > REPEAT_MAX || (max >= 0 && min > max) {
                            return Err(Error { problem: INVALID_REPEAT, at });
                        }
                        self.repeat(before, repetition, (min, max), true)?;
                        repeated = true;
                    }
                    None => {
                        self.skip(1);
                        self.literal('{'.into());
                    }
                },
                '\\' => self.backslash()?,
                _ => {
                    self.skip(next.len_utf8());
                    self.simple(next);
                }
            }
            repetition = repeated.then_some(before);
        }
        if self.groups.len() > 1 {
            return Err(Error { problem: "missing closing )", at: self.pattern });
        }
        self.finish()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.skip(next.len_utf8());
        Some(next)
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the expression itself is never closed")
    }

    fn push(&mut self, node: Node) {
        let item = self.tree.leaf(node);
        self.group().push(1, item);
    }

    fn literal(&mut self, c: u32) {
        self.push(Node::Char { c, fold: self.flags.fold });
    }

    /// Adds `^`, `$`, `.` or a literal character.
    fn simple(&mut self, c: char) {
        let look = match (c, self.flags.lines) {
            ('^', false) => Look::BeginText,
            ('^', true) => Look::BeginLine,
            ('$', false) => Look::EndText,
            ('$', true) => Look::EndLine,
            ('.', _) => {
                let text = if self.flags.dot_newline { "(?s:.)" } else { "." };
                let excluded = (!self.flags.dot_newline).then_some(ClassItem::Range(10, 10));
                return self.push_class(text, true, excluded);
            }
            _ => return self.literal(c.into()),
        };
        self.push(Node::Look(look));
    }

    /// Adds a class of these items.
    fn push_class(&mut self, text: &'a str, negated: bool, items: impl IntoIterator<Item = ClassItem<'a>>) {
        let first = self.tree.items.len() as u32;
        self.tree.items.extend(items);
        let count = self.tree.items.len() as u32 - first;
        self.tree.classes.push(Class { text, fold: self.flags.fold, negated, first, count });
        self.push(Node::Class(self.tree.classes.len() as u32 - 1));
    }

    fn open(&mut self, captures: bool, inside: Flags) {
        let flags = std::mem::replace(&mut self.flags, inside);
        self.groups.push(Group { captures, flags, ..Group::default() });
    }

    /// Finishes the current alternative, and returns it.
    fn alternative(&mut self) -> ParseResult<'a, Item> {
        let items = std::mem::take(&mut self.group().items);
        let item = self.tree.concat(&items);
        self.limited(item)
    }

    /// Finishes the current group, and returns its contents.
    fn contents(&mut self) -> ParseResult<'a, Item> {
        let last = self.alternative()?;
        let mut alternatives = std::mem::take(&mut self.group().alternatives);
        alternatives.push(last);
        let item = self.tree.alternate(&alternatives);
        self.limited(item)
    }

    fn close(&mut self) -> ParseResult<'a> {
        if self.groups.len() == 1 {
            return Err(Error { problem: "unexpected )", at: self.pattern });
        }
        self.skip(1);
        let mut item = self.contents()?;
        if let Some(group) = self.groups.pop() {
            self.flags = group.flags;
            if group.captures {
                item = self.limited(item.captured())?;
            }
            self.group().push(group.max_before.max(group.last.unwrap_or(0)), item);
        }
        Ok(())
    }

    /// Parses the optional `?` of a repetition, with or without counts in braces; errors if a repetition is not allowed
    /// here or exceeds the limit.
    fn repeat(
        &mut self,
        before: &'a str,
        repetition: Option<&'a str>,
        (min, max): (i64, i64),
        braces: bool,
    ) -> ParseResult<'a> {
        let mut lazy = self.flags.swap;
        if self.rest.starts_with('?') {
            self.skip(1);
            lazy = !lazy;
        }
        let rest = self.rest;
        if let Some(repetition) = repetition {
            return Err(Error { problem: "invalid nested repetition operator", at: before_end(repetition, rest) });
        }
        let group = self.group();
        let (Some(weight), Some(item)) = (&mut group.last, group.items.pop()) else {
            return Err(Error { problem: "missing argument to repetition operator", at: before_end(before, rest) });
        };
        if braces {
            let times = if max < 0 { min } else { max };
            *weight = if max == 0 { 0 } else { weight.saturating_mul(times.max(1)) };
            if (min >= 2 || max >= 2) && *weight > REPEAT_MAX {
                return Err(Error { problem: INVALID_REPEAT, at: before_end(before, rest) });
            }
        }
        let max = if max < 0 { UNLIMITED } else { max as u16 };
        let item = self.tree.repeat(item, min as u16, max, lazy);
        let item = self.limited(item)?;
        self.group().items.push(item);
        Ok(())
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`; anything else is literal. -1 means no maximum, or a number that is too large.
    fn counts(&mut self) -> Option<(i64, i64)> {
        let (mut min, mut rest) = number(&self.rest[1..])?;
        let mut max = min;
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
            max = -1;
            if !rest.starts_with('}') {
                (max, rest) = number(rest)?;
                if max < 0 {
                    min = -1;
                }
            }
        }
        self.rest = rest.strip_prefix('}')?;
        Some((min, max))
    }

    /// Parses the rest of `(?`: a group name, flags, or a non-capturing group.
    fn perl_group(&mut self) -> ParseResult<'a> {
        let before = self.rest;
        let name =
            [("(?P<", 4), ("(?<", 3)].into_iter().find(|(start, at)| before.starts_with(start) && before.len() > *at);
        if let Some((_, start)) = name {
            const INVALID_NAME: &str = "invalid named capture";
            let Some(end) = before.find('>') else { return Err(Error { problem: INVALID_NAME, at: before }) };
            let name = &before[start.min(end)..end];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(Error { problem: INVALID_NAME, at: &before[..=end] });
            }
            self.skip(end + 1);
            self.open(true, self.flags);
            return Ok(());
        }
        self.skip(2);
        let (mut negative, mut any) = (false, false);
        let mut flags = self.flags;
        while let Some(flag) = self.next() {
            match flag {
                'i' | 'm' | 's' | 'U' => {
                    any = true;
                    let changed = match flag {
                        'i' => &mut flags.fold,
                        'm' => &mut flags.lines,
                        's' => &mut flags.dot_newline,
                        _ => &mut flags.swap,
                    };
                    *changed = !negative;
                }
                '-' if !negative => (negative, any) = (true, false),
                ':' if any || !negative => {
                    self.open(false, flags);
                    return Ok(());
                }
                ')' if any || !negative => {
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(Error { problem: INVALID_PERL, at: before_end(before, self.rest) })
    }

    fn backslash(&mut self) -> ParseResult<'a> {
        let before = self.rest;
        let look = match before.as_bytes().get(1) {
            Some(b'C') => return Err(Error { problem: INVALID_ESCAPE, at: &before[..2] }),
            Some(b'Q') => {
                let (literal, rest) = before[2..].split_once("\\E").unwrap_or((&before[2..], ""));
                self.rest = rest;
                literal.chars().for_each(|c| self.literal(c.into()));
                return Ok(());
            }
            Some(b'A') => Look::BeginText,
            Some(b'b') => Look::WordBoundary,
            Some(b'B') => Look::NoWordBoundary,
            Some(b'z') => Look::EndText,
            _ => {
                if let Some(item) = self.named_class()? {
                    self.push_class(before_end(before, self.rest), false, [item]);
                } else {
                    let c = self.escape()?;
                    self.literal(c);
                }
                return Ok(());
            }
        };
        self.skip(2);
        self.push(Node::Look(look));
        Ok(())
    }
}

/// Returns `text` without its suffix `rest`.
fn before_end<'a>(text: &'a str, rest: &str) -> &'a str {
    &text[..text.len() - rest.len()]
}

/// Parses digits without leading zeros; -1 if there are too many.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok().filter(|n| *n < 100_000_000).unwrap_or(-1), rest))
}
