//! The lexer of label selectors.

/// The tokens of a label selector; the parser accepts the keywords `in` and `notin` as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    EndOfString,
    ClosedParen,
    Comma,
    DoesNotExist,
    DoubleEquals,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenParen,
}

/// Splits `text` into tokens with their text. The last token is `EndOfString`.
///
/// A NUL byte after a token is a separator, but one at the beginning of a token ends the text, because kube-apiserver's
/// lexer takes it for the end of its input.
pub(super) fn tokens(text: &str) -> Vec<(Token, &str)> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.bytes().next().filter(|b| *b != 0) else {
            out.push((Token::EndOfString, ""));
            return out;
        };
        let (token, length) = if is_special(first) { special(rest.as_bytes()) } else { identifier_or_keyword(rest) };
        out.push((token, &rest[..length]));
        rest = &rest[length..];
        rest = rest.strip_prefix('\0').unwrap_or(rest);
    }
}

/// Returns the longest operator at the beginning of `rest`. Other special bytes are one token each.
fn special(rest: &[u8]) -> (Token, usize) {
    match (rest[0], rest.get(1)) {
        (b'=', Some(b'=')) => (Token::DoubleEquals, 2),
        (b'!', Some(b'=')) => (Token::NotEquals, 2),
        (b'=', _) => (Token::Equals, 1),
        (b'!', _) => (Token::DoesNotExist, 1),
        (b'(', _) => (Token::OpenParen, 1),
        (b')', _) => (Token::ClosedParen, 1),
        (b'>', _) => (Token::GreaterThan, 1),
        (b'<', _) => (Token::LessThan, 1),
        _ => (Token::Comma, 1),
    }
}

fn identifier_or_keyword(rest: &str) -> (Token, usize) {
    let length = rest.bytes().position(|b| b == 0 || is_special(b) || is_space(b)).unwrap_or(rest.len());
    let token = match &rest[..length] {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    (token, length)
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
