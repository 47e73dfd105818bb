//! The parser of paths.

use binnacle_meta::Text;
use binnacle_schema::Value;

use super::{Filter, JsonPath, Node, Operator, Slice};

/// An error in a path, with the text of Go's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("unclosed action")]
    Unclosed,
    #[error("unrecognized character in action: {}", code_point(*.0))]
    Character(char),
    #[error("invalid multiple recursive descent")]
    DescendsTwice,
    #[error("cannot parse number {0}")]
    Number(String),
    #[error("unterminated array")]
    UnterminatedArray,
    #[error("invalid array index {0}")]
    Index(String),
    #[error("array index {0} is not a number")]
    IndexNumber(String),
    #[error("unterminated filter")]
    UnterminatedFilter,
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    #[error("unquote string {0} error invalid syntax")]
    Quoted(String),
    #[error("nested too deeply")]
    TooDeep,
}

/// The maximum nesting of filters and unions.
const MAX_DEPTH: usize = 16;

/// Parses a path.
pub(super) fn read(text: &str) -> Result<Vec<Node>, InvalidPath> {
    within(text, 0)
}

/// Parses the path as the template `{path}`, as Go does. If the path closes the brace itself, its first expression is
/// used and the others only have to be valid.
fn within(text: &str, depth: usize) -> Result<Vec<Node>, InvalidPath> {
    if depth > MAX_DEPTH {
        return Err(InvalidPath::TooDeep);
    }
    let input = format!("{text}}}");
    let mut parser = Parser { input: &input, at: 0, depth, nodes: Vec::new() };
    parser.action()?;
    let first = std::mem::take(&mut parser.nodes);
    while let Some(brace) = parser.rest().find('{') {
        parser.at += brace + 1;
        parser.action()?;
    }
    Ok(first)
}

/// A template, how much of it is read, and the nodes of the current expression.
struct Parser<'t> {
    input: &'t str,
    at: usize,
    depth: usize,
    nodes: Vec<Node>,
}

impl<'t> Parser<'t> {
    /// Parses up to the closing brace.
    fn action(&mut self) -> Result<(), InvalidPath> {
        self.nodes.clear();
        while !self.take("}") {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), InvalidPath> {
        if self.take("[?(") {
            return self.filter();
        }
        if self.take("..") {
            if self.nodes.last() == Some(&Node::Descend) {
                return Err(InvalidPath::DescendsTwice);
            }
            self.nodes.push(Node::Descend);
            if self.rest().starts_with(is_of_word) {
                self.member();
            }
            return Ok(());
        }
        let start = self.at;
        match self.next() {
            None | Some('\r' | '\n') => return Err(InvalidPath::Unclosed),
            Some(' ' | '@' | '$') => {}
            Some('[') => return self.bracket(),
            Some(quote @ ('"' | '\'')) => return self.quoted(start, quote),
            Some('.') => self.member(),
            Some(c) if c == '+' || c == '-' || c.is_ascii_digit() => return self.number(start),
            Some(c) if is_of_word(c) => self.word(start),
            Some(other) => return Err(InvalidPath::Character(other)),
        }
        Ok(())
    }

    fn rest(&self) -> &'t str {
        &self.input[self.at..]
    }

    /// Consumes the text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Consumes everything up to the first terminating character or the end.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let token = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    /// Parses a name; a backslash escapes the next character.
    fn member(&mut self) {
        let start = self.at;
        loop {
            self.take_until(|c| c == '\\' || ends_name(c));
            if !self.take("\\") {
                break;
            }
            self.next();
        }
        let node = match &self.input[start..self.at] {
            "*" => Node::All,
            name => Node::Member(Text::from(name.replace('\\', ""))),
        };
        self.nodes.push(node);
    }

    fn word(&mut self, start: usize) {
        self.take_until(ends_name);
        let node = match &self.input[start..self.at] {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            _ => Node::Word,
        };
        self.nodes.push(node);
    }

    fn number(&mut self, start: usize) -> Result<(), InvalidPath> {
        self.take_until(|c| c != '.' && !c.is_ascii_digit());
        let text = &self.input[start..self.at];
        let float = || text.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Float);
        let value = text.parse().ok().map(Value::Int).or_else(float);
        self.nodes.push(Node::Literal(value.ok_or_else(|| InvalidPath::Number(text.to_owned()))?));
        Ok(())
    }

    fn quoted(&mut self, start: usize, quote: char) -> Result<(), InvalidPath> {
        loop {
            self.take_until(|c| c == '\n' || c == quote);
            if !matches!(self.next(), Some(c) if c == quote) {
                return Err(InvalidPath::UnterminatedQuote);
            }
            // As in Go, a quote after a backslash does not end the string, even if that backslash is itself escaped.
            if !self.input[..self.at - 1].ends_with('\\') {
                break;
            }
        }
        let text = &self.input[start..self.at];
        let value = unquoted(&text[1..text.len() - 1], quote).ok_or_else(|| InvalidPath::Quoted(text.to_owned()))?;
        self.nodes.push(Node::Literal(Value::from(value)));
        Ok(())
    }

    fn bracket(&mut self) -> Result<(), InvalidPath> {
        let text = self.take_until(|c| c == ']' || c == '\n');
        if !self.take("]") {
            return Err(InvalidPath::UnterminatedArray);
        }
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text
                .split(',')
                .map(|part| within(&format!("[{}]", part.trim_matches(' ')), self.depth + 1).map(JsonPath));
            self.nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            // A dot separates names here as well.
            self.nodes.extend(within(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        self.nodes.push(Node::Slice(slice(text)?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), InvalidPath> {
        let end = filter_end(self.rest()).ok_or(InvalidPath::UnterminatedFilter)?;
        let text = &self.rest()[..end];
        self.at += end + 1;
        if !self.take("]") {
            return Err(InvalidPath::UnclosedFilter);
        }
        let within = |text: &str| within(text, self.depth + 1).map(JsonPath);
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
        Ok(())
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphabetic() || c.is_ascii_digit() || c == '_'
}

fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses `start:end:step`; each part is optional.
fn slice(text: &str) -> Result<Slice, InvalidPath> {
    let has_form = |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || !parts.iter().all(|part| has_form(part)) {
        return Err(InvalidPath::Index(text.to_owned()));
    }
    let number = |part: usize| match parts.get(part) {
        None | Some(&"") => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| InvalidPath::IndexNumber((*text).to_owned())),
    };
    Ok(Slice { start: number(0)?, end: number(1)?, step: number(2)?, single: parts.len() == 1 })
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

/// Unescapes a Go literal between two quotes; returns `None` for an unknown escape.
fn unquoted(text: &str, quote: char) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let push = |bytes: &mut Vec<u8>, c: char| bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let digits = |rest: &mut std::str::Chars<'_>, length: usize, radix| {
            let text: String = rest.take(length).collect();
            let is_number = text.len() == length && text.chars().all(|c| c.is_digit(radix));
            is_number.then(|| u32::from_str_radix(&text, radix).ok()).flatten()
        };
        match rest.next()? {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            'x' => bytes.push(u8::try_from(digits(&mut rest, 2, 16)?).ok()?),
            'u' => push(&mut bytes, char::from_u32(digits(&mut rest, 4, 16)?)?),
            'U' => push(&mut bytes, char::from_u32(digits(&mut rest, 8, 16)?)?),
            first @ '0'..='7' => {
                let value = first.to_digit(8)? * 64 + digits(&mut rest, 2, 8)?;
                bytes.push(u8::try_from(value).ok()?);
            }
            '\\' => bytes.push(b'\\'),
            c if c == quote => push(&mut bytes, c),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats a character as Go's `%#U` does.
fn code_point(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    if c.is_control() { code } else { format!("{code} '{c}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_kube_apiserver() {
        let deep = format!("{}@.a{}", "[?(".repeat(40), ")]".repeat(40));
        for (path, want) in [
            (".a#b", ""),
            ("\u{e9}", ""),
            ("\u{bd}", "unrecognized character in action: U+00BD '\u{bd}'"),
            ("#", "unrecognized character in action: U+0023 '#'"),
            (".a\t.b", "unrecognized character in action: U+0009"),
            ("..*", "unrecognized character in action: U+002A '*'"),
            (".{a}", "unrecognized character in action: U+007B '{'"),
            (".a}{#}", "unrecognized character in action: U+0023 '#'"),
            (".a\\", "unclosed action"),
            (".a}{", ""),
            (".a\n", "unclosed action"),
            ("....a", "invalid multiple recursive descent"),
            ("-", "cannot parse number -"),
            ("[?(@.a == 1.2.3)]", "cannot parse number 1.2.3"),
            (".a[", "unterminated array"),
            (".a[b]", "invalid array index b"),
            (".a[\"b\"]", "invalid array index \"b\""),
            (".a[0:1:2:3]", "invalid array index 0:1:2:3"),
            (".a[+1]", "invalid array index +1"),
            (".a[0,b]", "invalid array index b"),
            (".a[-]", "array index - is not a number"),
            (".a[99999999999999999999]", "array index 99999999999999999999 is not a number"),
            (".a[?(@.b", "unterminated filter"),
            (&deep, "unterminated filter"),
            (".a[?(@.b)", "unclosed array expect ]"),
            (".a[?(@.b)}", "unclosed array expect ]"),
            ("'a", "unterminated quoted string"),
            (r"'a\q'", r"unquote string 'a\q' error invalid syntax"),
            (r#"'a\"'"#, r#"unquote string 'a\"' error invalid syntax"#),
            (r"'a\\'", "unterminated quoted string"),
        ] {
            assert_eq!(read(path).err().map(|error| error.to_string()).unwrap_or_default(), want, "{path}");
        }
    }

    #[test]
    fn unquotes_string_literals() {
        for (text, quote, want) in [
            ("plain", '"', Some("plain")),
            (r"\a\b\f\n\r\t\v\\", '"', Some("\u{7}\u{8}\u{c}\n\r\t\u{b}\\")),
            (r"\x41\101\u00e9\U0001F600", '"', Some("AA\u{e9}\u{1F600}")),
            (r"\'", '\'', Some("'")),
            (r"\'", '"', None),
            (r"\x4", '"', None),
            (r"\x+4", '"', None),
            (r"\777", '"', None),
            (r"\ud800", '"', None),
        ] {
            assert_eq!(unquoted(text, quote).as_deref(), want, "{text}");
        }
    }
}
