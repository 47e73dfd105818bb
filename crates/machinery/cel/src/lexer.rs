//! Tokens of an expression, with the longest match of CEL's lexical grammar.

use crate::source::{Issues, Source};

/// The numbers are the token types of kube-apiserver's grammar, which is also the order of expected tokens in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum TokenKind {
    Equals = 1,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float = 31,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscIdentifier,
    Eof,
}

impl TokenKind {
    /// Returns the token's name in error messages.
    pub(crate) fn display(self) -> &'static str {
        match self {
            Self::Equals => "'=='",
            Self::NotEquals => "'!='",
            Self::In => "'in'",
            Self::Less => "'<'",
            Self::LessEquals => "'<='",
            Self::GreaterEquals => "'>='",
            Self::Greater => "'>'",
            Self::And => "'&&'",
            Self::Or => "'||'",
            Self::LBracket => "'['",
            Self::RBracket => "']'",
            Self::LBrace => "'{'",
            Self::RBrace => "'}'",
            Self::LParen => "'('",
            Self::RParen => "')'",
            Self::Dot => "'.'",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::Exclam => "'!'",
            Self::Question => "'?'",
            Self::Colon => "':'",
            Self::Plus => "'+'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::True => "'true'",
            Self::False => "'false'",
            Self::Null => "'null'",
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Identifier => "IDENTIFIER",
            Self::EscIdentifier => "ESC_IDENTIFIER",
            Self::Eof => "<EOF>",
        }
    }
}

/// Offsets count code points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Returns the tokens, the last of them the end; reports invalid text.
pub(crate) fn tokens(source: &Source, issues: &mut Issues) -> Vec<Token> {
    let chars = &source.chars;
    let mut tokens = Vec::with_capacity(chars.len() / 3 + 1);
    let mut at = 0;
    while at < chars.len() {
        match scan(&chars[at..]) {
            Lexeme::Token(kind, len) => {
                tokens.push(Token { kind, start: at, end: at + len });
                at += len;
            }
            Lexeme::Hidden(len) => at += len,
            // The unexpected character is part of the message, and is skipped with the text before it.
            Lexeme::Bad(len) => {
                let end = (at + len + 1).min(chars.len());
                let text: String = chars[at..end].iter().collect();
                issues.add(source.location(at), format!("Syntax error: token recognition error at: '{text}'"));
                at = end;
            }
        }
    }
    tokens.push(Token { kind: TokenKind::Eof, start: chars.len(), end: chars.len() });
    tokens
}

enum Lexeme {
    Token(TokenKind, usize),
    Hidden(usize),
    /// An invalid token: the number of characters that could begin one; the next character is unexpected.
    Bad(usize),
}

fn scan(chars: &[char]) -> Lexeme {
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let one = |kind| Lexeme::Token(kind, 1);
    match chars[0] {
        '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
            Lexeme::Hidden(chars.iter().take_while(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}')).count())
        }
        '/' if at(1) == '/' => Lexeme::Hidden(chars.iter().take_while(|c| **c != '\n').count()),
        '=' if at(1) == '=' => Lexeme::Token(TokenKind::Equals, 2),
        '=' => Lexeme::Bad(1),
        '!' if at(1) == '=' => Lexeme::Token(TokenKind::NotEquals, 2),
        '!' => one(TokenKind::Exclam),
        '<' if at(1) == '=' => Lexeme::Token(TokenKind::LessEquals, 2),
        '<' => one(TokenKind::Less),
        '>' if at(1) == '=' => Lexeme::Token(TokenKind::GreaterEquals, 2),
        '>' => one(TokenKind::Greater),
        '&' if at(1) == '&' => Lexeme::Token(TokenKind::And, 2),
        '|' if at(1) == '|' => Lexeme::Token(TokenKind::Or, 2),
        '&' | '|' => Lexeme::Bad(1),
        '[' => one(TokenKind::LBracket),
        ']' => one(TokenKind::RBracket),
        '{' => one(TokenKind::LBrace),
        '}' => one(TokenKind::RBrace),
        '(' => one(TokenKind::LParen),
        ')' => one(TokenKind::RParen),
        '.' if at(1).is_ascii_digit() => {
            let len = 1 + digits(&chars[1..]);
            Lexeme::Token(TokenKind::Float, len + exponent(&chars[len..]))
        }
        '.' => one(TokenKind::Dot),
        ',' => one(TokenKind::Comma),
        '-' => one(TokenKind::Minus),
        '?' => one(TokenKind::Question),
        ':' => one(TokenKind::Colon),
        '+' => one(TokenKind::Plus),
        '*' => one(TokenKind::Star),
        '/' => one(TokenKind::Slash),
        '%' => one(TokenKind::Percent),
        '0'..='9' => number(chars),
        '"' | '\'' => string(chars, false, 0, TokenKind::String),
        'b' | 'B' if matches!(at(1), '"' | '\'') => or_word(string(chars, false, 1, TokenKind::Bytes), chars),
        'r' | 'R' if matches!(at(1), '"' | '\'') => or_word(string(chars, true, 1, TokenKind::String), chars),
        'b' | 'B' if matches!(at(1), 'r' | 'R') && matches!(at(2), '"' | '\'') => {
            or_word(string(chars, true, 2, TokenKind::Bytes), chars)
        }
        c if c.is_ascii_alphabetic() || c == '_' => word(chars),
        '`' => {
            let len = chars[1..]
                .iter()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '))
                .count();
            if len > 0 && at(len + 1) == '`' {
                Lexeme::Token(TokenKind::EscIdentifier, len + 2)
            } else {
                Lexeme::Bad(len + 1)
            }
        }
        _ => Lexeme::Bad(0),
    }
}

/// If a prefix is not followed by a string, returns it as a word.
fn or_word(scan: Lexeme, chars: &[char]) -> Lexeme {
    match scan {
        Lexeme::Bad(_) => word(chars),
        scan => scan,
    }
}

fn word(chars: &[char]) -> Lexeme {
    let len = chars.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
    let kind = match len {
        2 if chars[..2] == ['i', 'n'] => TokenKind::In,
        4 if chars[..4] == ['t', 'r', 'u', 'e'] => TokenKind::True,
        5 if chars[..5] == ['f', 'a', 'l', 's', 'e'] => TokenKind::False,
        4 if chars[..4] == ['n', 'u', 'l', 'l'] => TokenKind::Null,
        _ => TokenKind::Identifier,
    };
    Lexeme::Token(kind, len)
}

fn digits(chars: &[char]) -> usize {
    chars.iter().take_while(|c| c.is_ascii_digit()).count()
}

/// Returns the length of an exponent, 0 for none.
fn exponent(chars: &[char]) -> usize {
    if !matches!(chars.first(), Some('e' | 'E')) {
        return 0;
    }
    let sign = usize::from(matches!(chars.get(1), Some('+' | '-')));
    match digits(&chars[1 + sign..]) {
        0 => 0,
        n => 1 + sign + n,
    }
}

fn number(chars: &[char]) -> Lexeme {
    if chars[0] == '0' && chars.get(1) == Some(&'x') {
        let hex = chars[2..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
        if hex > 0 {
            return integer(chars, 2 + hex);
        }
    }
    let len = digits(chars);
    if chars.get(len) == Some(&'.') {
        let fraction = digits(&chars[len + 1..]);
        if fraction > 0 {
            let len = len + 1 + fraction;
            return Lexeme::Token(TokenKind::Float, len + exponent(&chars[len..]));
        }
    }
    match exponent(&chars[len..]) {
        0 => integer(chars, len),
        n => Lexeme::Token(TokenKind::Float, len + n),
    }
}

fn integer(chars: &[char], len: usize) -> Lexeme {
    match chars.get(len) {
        Some('u' | 'U') => Lexeme::Token(TokenKind::Uint, len + 1),
        _ => Lexeme::Token(TokenKind::Int, len),
    }
}

fn string(chars: &[char], raw: bool, prefix: usize, kind: TokenKind) -> Lexeme {
    let quote = chars[prefix];
    let body = prefix + 1;
    if chars.get(body) == Some(&quote) && chars.get(body + 1) == Some(&quote) {
        // Three quotes, or an empty string followed by another quote.
        return match triple(chars, raw, body + 2, quote) {
            Ok(len) => Lexeme::Token(kind, len),
            Err(_) => Lexeme::Token(kind, body + 1),
        };
    }
    let mut at = body;
    loop {
        match chars.get(at) {
            None | Some('\n' | '\r') => return Lexeme::Bad(at),
            Some(c) if *c == quote => return Lexeme::Token(kind, at + 1),
            Some('\\') if !raw => match escape(&chars[at..]) {
                Ok(len) => at += len,
                Err(len) => return Lexeme::Bad(at + len),
            },
            Some(_) => at += 1,
        }
    }
}

fn triple(chars: &[char], raw: bool, mut at: usize, quote: char) -> Result<usize, usize> {
    loop {
        match chars.get(at) {
            None => return Err(at),
            Some(c) if *c == quote && chars.get(at + 1) == Some(&quote) && chars.get(at + 2) == Some(&quote) => {
                return Ok(at + 3);
            }
            Some('\\') if !raw => at += escape(&chars[at..]).map_err(|len| at + len)?,
            Some(_) => at += 1,
        }
    }
}

/// Returns the length of an escape, or the length of its valid beginning.
fn escape(chars: &[char]) -> Result<usize, usize> {
    let run = |count: usize, test: fn(&char) -> bool| {
        let fits = chars[2..].iter().take(count).take_while(|c| test(c)).count();
        if fits == count { Ok(2 + count) } else { Err(2 + fits) }
    };
    match chars.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('x' | 'X') => run(2, char::is_ascii_hexdigit),
        Some('u') => run(4, char::is_ascii_hexdigit),
        Some('U') => run(8, char::is_ascii_hexdigit),
        Some('0'..='3') => run(2, |c| matches!(c, '0'..='7')),
        _ => Err(1),
    }
}
