//! Parsing of lists, maps, messages and arguments.

use super::{ParseError, ParseResult, Parser};
use crate::ast::{Expr, ExprKind, FieldInit, List, MapEntry, Struct};
use crate::lexer::TokenKind as T;

impl Parser<'_> {
    /// Parses a message whose name consists of `count` tokens.
    pub(super) fn message(&mut self, leading: bool, count: usize) -> ParseResult {
        let mut name = String::from(if leading { "." } else { "" });
        for _ in 0..count {
            let token = self.advance();
            name.push_str(&self.text(token));
        }
        let open = self.advance();
        let id = self.id(open)?;
        let mut fields = Vec::new();
        while !matches!(self.peek(), T::RBrace | T::Comma) {
            let optional = self.take(T::Question);
            let field = match self.peek() {
                T::Identifier | T::EscIdentifier => self.advance(),
                _ => return Err(ParseError::Syntax),
            };
            let colon = self.expect(T::Colon)?;
            let id = self.id(colon)?;
            if let Some(mark) = optional.filter(|_| !self.features.optionals) {
                self.unsupported(mark, "unsupported syntax '?'")?;
            }
            let name = self.field_name(field)?;
            let value = self.expr()?;
            fields.push(FieldInit { id, name, value, optional: optional.is_some() });
            if self.peek() == T::Comma && self.peek_at(1) != T::RBrace {
                self.at += 1;
                if matches!(self.peek(), T::Comma) {
                    return Err(ParseError::Syntax);
                }
            } else {
                break;
            }
        }
        self.take(T::Comma);
        self.expect(T::RBrace)?;
        self.depths[id as usize] = fields.iter().map(|field| self.depth(&field.value)).max().unwrap_or(0);
        Ok(Expr { id, kind: ExprKind::Struct(Struct { name: name.into(), fields }) })
    }

    pub(super) fn list(&mut self) -> ParseResult<List> {
        let mut list = List { elements: Vec::new(), optional: Vec::new() };
        while !matches!(self.peek(), T::RBracket | T::Comma) {
            if let Some(mark) = self.take(T::Question) {
                if !self.features.optionals {
                    self.unsupported(mark, "unsupported syntax '?'")?;
                }
                list.optional.push(list.elements.len());
            }
            list.elements.push(self.expr()?);
            if self.peek() != T::Comma || self.peek_at(1) == T::RBracket {
                break;
            }
            self.at += 1;
            if self.peek() == T::Comma {
                return Err(ParseError::Syntax);
            }
        }
        self.take(T::Comma);
        self.expect(T::RBracket)?;
        Ok(list)
    }

    pub(super) fn map(&mut self) -> ParseResult<Vec<MapEntry>> {
        let mut entries = Vec::new();
        while !matches!(self.peek(), T::RBrace | T::Comma) {
            let optional = self.take(T::Question);
            if let Some(mark) = optional.filter(|_| !self.features.optionals) {
                self.unsupported(mark, "unsupported syntax '?'")?;
            }
            let key = self.expr()?;
            self.expect(T::Colon)?;
            let value = self.expr()?;
            entries.push(MapEntry { key, value, optional: optional.is_some() });
            if self.peek() != T::Comma || self.peek_at(1) == T::RBrace {
                break;
            }
            self.at += 1;
            if self.peek() == T::Comma {
                return Err(ParseError::Syntax);
            }
        }
        self.take(T::Comma);
        self.expect(T::RBrace)?;
        Ok(entries)
    }

    /// Parses the arguments of a call and the closing parenthesis.
    pub(super) fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(T::RParen).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.take(T::Comma).is_none() {
                break;
            }
        }
        self.expect(T::RParen)?;
        Ok(args)
    }
}
