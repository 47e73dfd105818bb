//! The parser of paths.

use binnacle_meta::Text;
use binnacle_schema::Value;

use super::{Filter, JsonPath, Node, Operator, Slice};

/// The maximum length of a path.
const MAX_LENGTH: usize = 4096;
/// The maximum nesting of filters and unions.
const MAX_DEPTH: usize = 16;

/// The unread rest of a path, and the nodes so far.
pub(super) struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    nodes: Vec<Node>,
}

impl<'t> Parser<'t> {
    /// Parses a whole path.
    pub(super) fn read(text: &str) -> Option<Vec<Node>> {
        if text.len() > MAX_LENGTH { None } else { Self::within(text, 0) }
    }

    fn within(text: &str, depth: usize) -> Option<Vec<Node>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut parser = Parser { rest: text, depth, nodes: Vec::new() };
        while !parser.rest.is_empty() {
            // Go reads a column's path as a template `{path}`, of which the first expression counts.
            if depth == 0
                && let Some(rest) = parser.rest.strip_prefix('}')
            {
                return (!rest.contains('{')).then_some(parser.nodes);
            }
            parser.step()?;
        }
        Some(parser.nodes)
    }

    fn step(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix("[?(") {
            self.rest = rest;
            return self.filter();
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            self.rest = rest;
            if self.nodes.last() == Some(&Node::Descend) {
                return None;
            }
            self.nodes.push(Node::Descend);
            if rest.starts_with(is_of_word) {
                self.member();
            } else if let Some(rest) = rest.strip_prefix('*') {
                self.rest = rest;
                self.nodes.push(Node::All);
            }
            return Some(());
        }
        let first = self.rest.chars().next()?;
        match first {
            ' ' | '@' | '$' => self.skip(),
            '[' => return self.bracket(),
            '"' | '\'' => return self.quoted(first),
            '.' => {
                self.skip();
                self.member();
            }
            '+' | '-' => return self.number(),
            c if c.is_ascii_digit() => return self.number(),
            c if is_of_word(c) => self.word(),
            _ => return None,
        }
        Some(())
    }

    /// Skips a character of one byte.
    fn skip(&mut self) {
        self.rest = &self.rest[1..];
    }

    /// Takes the text up to a position, and moves there.
    fn take(&mut self, end: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Parses a name; a backslash keeps the next character in it.
    fn member(&mut self) {
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if ends_name(c) {
                end = at;
                break;
            }
        }
        let node = match self.take(end) {
            "*" => Node::All,
            name => Node::Member(Text::from(name.replace('\\', ""))),
        };
        self.nodes.push(node);
    }

    fn word(&mut self) {
        let end = self.rest.find(ends_name).unwrap_or(self.rest.len());
        let node = match self.take(end) {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            _ => Node::Word,
        };
        self.nodes.push(node);
    }

    fn number(&mut self) -> Option<()> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |end| sign + end));
        let value = match text.parse::<i64>() {
            Ok(n) => Value::Int(n),
            Err(_) => Value::Float(text.parse().ok()?),
        };
        self.nodes.push(Node::Literal(value));
        Some(())
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        let inner = &self.rest[1..];
        let mut text = String::new();
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\n' => return None,
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    c @ ('\\' | '"' | '\'') => text.push(c),
                    _ => return None,
                },
                c if c == quote => {
                    self.rest = &inner[at + 1..];
                    self.nodes.push(Node::Literal(Value::from(text)));
                    return Some(());
                }
                c => text.push(c),
            }
        }
        None
    }

    fn bracket(&mut self) -> Option<()> {
        let end = self.rest.find(']')?;
        let text = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let part = format!("[{}]", part.trim_matches(' '));
                Self::within(&part, self.depth + 1).map(JsonPath)
            });
            self.nodes.push(Node::Union(parts.collect::<Option<_>>()?));
            return Some(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            // A dot separates names here as well.
            self.nodes.extend(Self::within(&format!(".{key}"), self.depth + 1)?);
            return Some(());
        }
        self.nodes.push(Node::Slice(slice(text)?));
        Some(())
    }

    fn filter(&mut self) -> Option<()> {
        let end = filter_end(self.rest)?;
        let text = &self.rest[..end];
        self.rest = self.rest[end + 1..].strip_prefix(']')?;
        let within = |text: &str| Self::within(text, self.depth + 1).map(JsonPath);
        let is_sign = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let parts = text.find(is_sign).filter(|sign| *sign > 0).and_then(|sign| {
            let length = text[sign..].find(|c| !is_sign(c))?;
            Some((&text[..sign], &text[sign..sign + length], &text[sign + length..]))
        });
        let filter = match parts {
            None => Filter { left: within(text)?, compare: None },
            Some((left, operator, right)) => {
                let operator = match operator {
                    "==" => Operator::Equal,
                    "!=" => Operator::NotEqual,
                    "<" => Operator::Less,
                    "<=" => Operator::LessOrEqual,
                    ">" => Operator::Greater,
                    ">=" => Operator::GreaterOrEqual,
                    _ => Operator::Unknown,
                };
                Filter { left: within(left)?, compare: Some((operator, within(right)?)) }
            }
        };
        self.nodes.push(Node::Filter(filter));
        Some(())
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses `start:end:step`, of which each part is optional.
fn slice(text: &str) -> Option<Slice> {
    let number = |text: &str| match text {
        "" => Some(None),
        text if text.starts_with('+') => None,
        text => text.parse::<i64>().ok().map(Some),
    };
    let mut parts = text.split(':');
    let start = number(parts.next()?)?;
    let (end, step) = (parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    Some(Slice { start, end: number(end.unwrap_or(""))?, step: number(step.unwrap_or(""))?, single: end.is_none() })
}

/// Returns the position of the parenthesis that closes a filter, ignoring quoted ones.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = false;
    let mut before = '(';
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            '"' | '\'' => match quote {
                None => quote = Some(c),
                Some(pair) if pair == c && before != '\\' => closed = true,
                Some(_) => {}
            },
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        before = c;
    }
    None
}
