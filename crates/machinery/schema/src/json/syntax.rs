//! Go's errors for the syntax of a JSON document, found like Go's scanner does: byte by byte.

use binnacle_meta::go_quote;

use super::JsonError;

/// The scanner's state: the syntax that it expects next.
#[derive(Clone, Copy)]
enum State {
    BeginValue,
    BeginValueOrEmpty,
    BeginString,
    BeginStringOrEmpty,
    EndValue,
    EndTop,
    InString,
    InEscape,
    /// The number of missing hexadecimal digits.
    InUnicode(u8),
    Neg,
    Zero,
    Digits,
    Dot,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// The word, and the number of its bytes that were read.
    Word(&'static str, u8),
}

/// The kind of object or array that the scanner is in.
#[derive(Clone, Copy)]
enum Container {
    ObjectKey,
    ObjectValue,
    Array,
}

struct Scanner {
    state: State,
    stack: Vec<Container>,
    max_depth: usize,
}

/// Succeeds for documents that are well formed and within the depth limit.
pub(super) fn check(bytes: &[u8], max_depth: usize) -> Result<(), JsonError> {
    let mut scanner = Scanner { state: State::BeginValue, stack: Vec::new(), max_depth };
    let invalid = |byte: u8, context: &str, offset: usize| JsonError::Syntax {
        message: format!("invalid character {} {context}", quoted(byte)),
        offset,
    };
    for (offset, byte) in bytes.iter().enumerate() {
        scanner.step(*byte).map_err(|context| invalid(*byte, context, offset + 1))?;
    }
    if matches!(scanner.state, State::EndTop) {
        return Ok(());
    }
    // Go takes the end of the text for a space, which is an error within a number, a word or an escape.
    scanner.step(b' ').map_err(|context| invalid(b' ', context, bytes.len()))?;
    if matches!(scanner.state, State::EndTop) {
        return Ok(());
    }
    Err(JsonError::Syntax { message: "unexpected end of JSON input".to_owned(), offset: bytes.len() })
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::BeginValue | State::BeginValueOrEmpty | State::BeginString | State::BeginStringOrEmpty if space => {
                return Ok(());
            }
            State::BeginValueOrEmpty if byte == b']' => return self.end_value(byte),
            State::BeginValue | State::BeginValueOrEmpty => return self.begin_value(byte),
            State::BeginStringOrEmpty if byte == b'}' => {
                self.replace(Container::ObjectValue);
                return self.end_value(byte);
            }
            State::BeginString | State::BeginStringOrEmpty => match byte {
                b'"' => State::InString,
                _ => return Err("looking for beginning of object key string"),
            },
            State::EndValue => return self.end_value(byte),
            State::EndTop if space => State::EndTop,
            State::EndTop => return Err("after top-level value"),
            State::InString => match byte {
                b'"' => State::EndValue,
                b'\\' => State::InEscape,
                0..0x20 => return Err("in string literal"),
                _ => State::InString,
            },
            State::InEscape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => State::InString,
                b'u' => State::InUnicode(4),
                _ => return Err("in string escape code"),
            },
            State::InUnicode(missing) => match byte {
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' if missing == 1 => State::InString,
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => State::InUnicode(missing - 1),
                _ => return Err("in \\u hexadecimal character escape"),
            },
            State::Neg => match byte {
                b'0' => State::Zero,
                b'1'..=b'9' => State::Digits,
                _ => return Err("in numeric literal"),
            },
            State::Digits if byte.is_ascii_digit() => State::Digits,
            State::Zero | State::Digits => match byte {
                b'.' => State::Dot,
                b'e' | b'E' => State::Exponent,
                _ => return self.end_value(byte),
            },
            State::Dot if byte.is_ascii_digit() => State::Fraction,
            State::Dot => return Err("after decimal point in numeric literal"),
            State::Fraction => match byte {
                b'0'..=b'9' => State::Fraction,
                b'e' | b'E' => State::Exponent,
                _ => return self.end_value(byte),
            },
            State::Exponent if matches!(byte, b'+' | b'-') => State::ExponentSign,
            State::Exponent | State::ExponentSign if byte.is_ascii_digit() => State::ExponentDigits,
            State::Exponent | State::ExponentSign => return Err("in exponent of numeric literal"),
            State::ExponentDigits if byte.is_ascii_digit() => State::ExponentDigits,
            State::ExponentDigits => return self.end_value(byte),
            State::Word(word, read) => {
                let read = usize::from(read);
                if word.as_bytes().get(read) != Some(&byte) {
                    return Err(expecting(word, read));
                }
                if read + 1 == word.len() { State::EndValue } else { State::Word(word, read as u8 + 1) }
            }
        };
        Ok(())
    }

    fn begin_value(&mut self, byte: u8) -> Result<(), &'static str> {
        self.state = match byte {
            b'{' => {
                self.push(Container::ObjectKey)?;
                State::BeginStringOrEmpty
            }
            b'[' => {
                self.push(Container::Array)?;
                State::BeginValueOrEmpty
            }
            b'"' => State::InString,
            b'-' => State::Neg,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Word("true", 1),
            b'f' => State::Word("false", 1),
            b'n' => State::Word("null", 1),
            _ => return Err("looking for beginning of value"),
        };
        Ok(())
    }

    fn end_value(&mut self, byte: u8) -> Result<(), &'static str> {
        let Some(container) = self.stack.last().copied() else {
            self.state = State::EndTop;
            return self.step(byte);
        };
        self.state = match (container, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => State::EndValue,
            (Container::ObjectKey, b':') => {
                self.replace(Container::ObjectValue);
                State::BeginValue
            }
            (Container::ObjectKey, _) => return Err("after object key"),
            (Container::ObjectValue, b',') => {
                self.replace(Container::ObjectKey);
                State::BeginString
            }
            (Container::Array, b',') => State::BeginValue,
            (Container::ObjectValue, b'}') | (Container::Array, b']') => {
                self.stack.pop();
                if self.stack.is_empty() { State::EndTop } else { State::EndValue }
            }
            (Container::ObjectValue, _) => return Err("after object key:value pair"),
            (Container::Array, _) => return Err("after array element"),
        };
        Ok(())
    }

    fn push(&mut self, container: Container) -> Result<(), &'static str> {
        self.stack.push(container);
        if self.stack.len() > self.max_depth { Err("exceeded max depth") } else { Ok(()) }
    }

    fn replace(&mut self, container: Container) {
        if let Some(top) = self.stack.last_mut() {
            *top = container;
        }
    }
}

fn expecting(word: &str, read: usize) -> &'static str {
    match (word, read) {
        ("true", 1) => "in literal true (expecting 'r')",
        ("true", 2) => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", 1) => "in literal false (expecting 'a')",
        ("false", 2) => "in literal false (expecting 'l')",
        ("false", 3) => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, 1) => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

/// Returns a byte in the form in which Go shows a character, even if it is part of one.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let text = go_quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", &text[1..text.len() - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_match_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a":"#, "unexpected end of JSON input"),
            (r#"{"a":1"#, "unexpected end of JSON input"),
            ("[\"a", "unexpected end of JSON input"),
            ("[1", "unexpected end of JSON input"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("[n", "invalid character ' ' in literal null (expecting 'u')"),
            ("-", "invalid character ' ' in numeric literal"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("1e+", "invalid character ' ' in exponent of numeric literal"),
            (r#"["\"#, "invalid character ' ' in string escape code"),
            (r#"["\u1"#, "invalid character ' ' in \\u hexadecimal character escape"),
            ("{bad", "invalid character 'b' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("x", "invalid character 'x' looking for beginning of value"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\'""#, r"invalid character '\'' in string escape code"),
            (r#""\u12g4""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("trex", "invalid character 'e' in literal true (expecting 'u')"),
            ("falsy", "invalid character 'y' in literal false (expecting 'e')"),
            ("nil", "invalid character 'i' in literal null (expecting 'u')"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
            ("\u{1}", "invalid character '\\x01' looking for beginning of value"),
            ("[[[[[", "invalid character '[' exceeded max depth"),
        ] {
            let error = check(text.as_bytes(), 4).expect_err(text);
            assert_eq!(error.to_string(), want, "{text}");
        }
        for text in ["0", " {} ", "[]", "[1, -0.5e+7, \"\\u00e9\\/\", null, true, false]", r#"{"a":{"b":[]}}"#] {
            assert_eq!(check(text.as_bytes(), 4), Ok(()), "{text}");
        }
    }
}
