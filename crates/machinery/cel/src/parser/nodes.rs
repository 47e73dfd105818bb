//! Tokens and nodes in the parser.

use binnacle_meta::Text;

use super::{MAX_NODES, MAX_RECURSION, ParseError, ParseResult, Parser, balanced, call, macros};
use crate::ast::{Call, Expr, ExprKind, Id};
use crate::lexer::{Token, TokenKind as T};

impl Parser<'_> {
    pub(super) fn call_or_macro(
        &mut self,
        id: Id,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> ParseResult {
        let mut depth = self.deepest(&args);
        if let Some(target) = &target {
            depth = depth.max(self.depth(target)) + 1;
        }
        let expr = match self.expand(id, function, target, args)? {
            macros::Expansion::Macro(expr) => expr,
            macros::Expansion::Call(target, args) => {
                let call = Call { function: function.into(), target, args };
                Expr { id, kind: ExprKind::Call(Box::new(call)) }
            }
        };
        self.nest(expr.id, depth)?;
        Ok(expr)
    }

    pub(super) fn operator(&mut self, id: Id, function: &str, args: Vec<Expr>) -> ParseResult {
        self.nest(id, self.deepest(&args) + 1)?;
        Ok(call(id, function, args))
    }

    /// Returns a balanced tree of the terms of a commutative operator.
    pub(super) fn balanced(&mut self, function: &str, ops: &[Id], terms: Vec<Expr>) -> Expr {
        let depth = self.deepest(&terms);
        let expr = balanced(function, ops, &mut terms.into_iter());
        self.depths[expr.id as usize] = depth;
        expr
    }

    pub(super) fn depth(&self, expr: &Expr) -> u16 {
        self.depths[expr.id as usize]
    }

    pub(super) fn deepest(&self, exprs: &[Expr]) -> u16 {
        exprs.iter().map(|expr| self.depth(expr)).max().unwrap_or(0)
    }

    pub(super) fn nest(&mut self, id: Id, depth: u16) -> ParseResult<()> {
        if depth as usize > MAX_RECURSION {
            return Err(ParseError::Limit("max recursion depth exceeded".into()));
        }
        self.depths[id as usize] = depth;
        Ok(())
    }

    // === Tokens ===

    pub(super) fn peek(&self) -> T {
        self.tokens[self.at].kind
    }

    pub(super) fn peek_at(&self, ahead: usize) -> T {
        self.tokens.get(self.at + ahead).map_or(T::Eof, |token| token.kind)
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.tokens[self.at];
        self.at += 1;
        token
    }

    pub(super) fn take(&mut self, kind: T) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    pub(super) fn expect(&mut self, kind: T) -> ParseResult<Token> {
        if kind == T::Eof && self.peek() == T::Eof {
            return Ok(self.tokens[self.at]);
        }
        self.take(kind).ok_or(ParseError::Syntax)
    }

    pub(super) fn text(&self, token: Token) -> Text {
        self.source.chars[token.start..token.end].iter().collect::<String>().into()
    }

    // === Nodes ===

    pub(super) fn id(&mut self, token: Token) -> ParseResult<Id> {
        self.id_at(token.start as u32)
    }

    pub(super) fn id_at(&mut self, offset: u32) -> ParseResult<Id> {
        if self.positions.len() >= MAX_NODES {
            return Err(ParseError::Limit(format!("expression is too large: it has more than {MAX_NODES} nodes")));
        }
        self.positions.push(offset);
        self.depths.push(0);
        Ok(self.positions.len() as Id - 1)
    }

    /// Reports an error and continues to find more.
    pub(super) fn unsupported(&mut self, token: Token, message: &str) -> ParseResult {
        self.issues.add(self.source.location(token.start), message);
        Ok(Expr { id: self.id(token)?, kind: ExprKind::Unspecified })
    }
}
