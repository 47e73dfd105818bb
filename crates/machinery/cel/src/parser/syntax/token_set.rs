//! Sets of tokens.

use crate::lexer::TokenKind as T;

/// Tokens, and true if the rule may end instead.
#[derive(Clone, Copy)]
pub(super) struct FollowSet {
    pub(super) tokens: TokenSet,
    pub(super) end: bool,
}

/// A set of kinds of tokens, one bit for each.
pub(super) type TokenSet = u64;

pub(super) const fn bit(kind: T) -> TokenSet {
    1 << kind as u8
}

pub(super) const fn set(kinds: &[T]) -> TokenSet {
    let mut bits = 0;
    let mut i = 0;
    while i < kinds.len() {
        bits |= bit(kinds[i]);
        i += 1;
    }
    bits
}

pub(super) const LITERAL: TokenSet =
    set(&[T::Minus, T::True, T::False, T::Null, T::Float, T::Int, T::Uint, T::String, T::Bytes]);
/// The tokens that can begin members and expressions.
pub(super) const MEMBER: TokenSet = LITERAL | set(&[T::LBracket, T::LBrace, T::LParen, T::Dot, T::Identifier]);
pub(super) const EXPR: TokenSet = MEMBER | bit(T::Exclam);
pub(super) const RELATION: TokenSet =
    set(&[T::Equals, T::NotEquals, T::In, T::Less, T::LessEquals, T::GreaterEquals, T::Greater]);
pub(super) const CALC: TokenSet = set(&[T::Star, T::Slash, T::Percent, T::Plus, T::Minus]);
pub(super) const MORE: TokenSet = set(&[T::Dot, T::LBracket]);
pub(super) const FIELD: TokenSet = set(&[T::Identifier, T::EscIdentifier]);

pub(super) const fn only(tokens: TokenSet) -> FollowSet {
    FollowSet { tokens, end: false }
}

pub(super) const fn or_end(tokens: TokenSet) -> FollowSet {
    FollowSet { tokens, end: true }
}

/// Formats a set of tokens for error messages.
pub(super) fn names(expected: TokenSet) -> String {
    let names: Vec<&str> = ALL.iter().filter(|kind| expected & bit(**kind) != 0).map(|kind| kind.display()).collect();
    match names[..] {
        [name] => name.to_owned(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

/// In kube-apiserver's order.
const ALL: [T; 36] = [
    T::Eof,
    T::Equals,
    T::NotEquals,
    T::In,
    T::Less,
    T::LessEquals,
    T::GreaterEquals,
    T::Greater,
    T::And,
    T::Or,
    T::LBracket,
    T::RBracket,
    T::LBrace,
    T::RBrace,
    T::LParen,
    T::RParen,
    T::Dot,
    T::Comma,
    T::Minus,
    T::Exclam,
    T::Question,
    T::Colon,
    T::Plus,
    T::Star,
    T::Slash,
    T::Percent,
    T::True,
    T::False,
    T::Null,
    T::Float,
    T::Int,
    T::Uint,
    T::String,
    T::Bytes,
    T::Identifier,
    T::EscIdentifier,
];
