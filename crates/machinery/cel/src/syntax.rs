//! Syntax trees of expressions that are not evaluated, for other languages with CEL's syntax: without macros, types and
//! references.

use binnacle_meta::Text;

use crate::ast::{Expr, ExprKind, Literal};
use crate::parser::{self, Features};
use crate::source::{CompileErrors, Issues, Source};

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Syntax {
    Ident(Text),
    /// A member of an operand.
    Select(Box<Syntax>, Text),
    /// A function or an operator and its arguments, without the target of a call like a method's.
    Call(Text, Vec<Syntax>),
    Text(Text),
    /// Another literal, with the name of its type in Go.
    Literal(&'static str),
    List,
    Map,
    Struct,
}

impl Syntax {
    /// Reads an expression; the error is the message of the first one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let source = Source::new(text);
        let mut issues = Issues::default();
        let features = Features { no_macros: true, ..Features::default() };
        match parser::parse(&source, features, &mut issues) {
            Some(parsed) => Ok(Self::of(&parsed.expr)),
            None => {
                let errors = CompileErrors::new(&source, issues);
                Err(errors.issues.first().map(|issue| issue.message.clone()).unwrap_or_default())
            }
        }
    }

    /// Returns cel-go's number of the expression kind, which appears in messages.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Call(..) => 1,
            Self::Ident(_) => 3,
            Self::List => 4,
            Self::Text(_) | Self::Literal(_) => 5,
            Self::Map => 6,
            Self::Select(..) => 7,
            Self::Struct => 8,
        }
    }

    fn of(expr: &Expr) -> Self {
        match &expr.kind {
            ExprKind::Ident(name) => Self::Ident(name.clone()),
            ExprKind::Select(select) => Self::Select(Box::new(Self::of(&select.operand)), select.field.clone()),
            ExprKind::Call(call) => Self::Call(call.function.clone(), call.args.iter().map(Self::of).collect()),
            ExprKind::Literal(Literal::String(text)) => Self::Text(text.clone()),
            ExprKind::Literal(literal) => Self::Literal(match literal {
                Literal::Null => "structpb.NullValue",
                Literal::Bool(_) => "bool",
                Literal::Int(_) => "int64",
                Literal::Uint(_) => "uint64",
                Literal::Double(_) => "float64",
                Literal::String(_) => "string",
                Literal::Bytes(_) => "[]uint8",
            }),
            ExprKind::List(_) => Self::List,
            ExprKind::Map(_) => Self::Map,
            // Only macros create comprehensions, and invalid expressions have no tree.
            ExprKind::Struct(_) | ExprKind::Comprehension(_) | ExprKind::Unspecified => Self::Struct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_expressions_without_expanding_macros() {
        let ident = |name: &str| Syntax::Ident(name.into());
        for (text, want) in [
            ("a.b", Ok(Syntax::Select(Box::new(ident("a")), "b".into()))),
            ("has(a)", Ok(Syntax::Call("has".into(), vec![ident("a")]))),
            ("x.f('1', 2u)", Ok(Syntax::Call("f".into(), vec![Syntax::Text("1".into()), Syntax::Literal("uint64")]))),
            ("a || b", Ok(Syntax::Call("_||_".into(), vec![ident("a"), ident("b")]))),
            ("A{}", Ok(Syntax::Struct)),
            ("a.?b", Err("unsupported syntax '.?'")),
            ("'a", Err("Syntax error: token recognition error at: ''a'")),
        ] {
            assert_eq!(Syntax::parse(text), want.map_err(str::to_owned), "{text}");
        }
    }
}
