//! The parser. Nesting, size and the number of nodes are limited, so that no expression can exhaust the stack or the
//! memory.

mod aggregates;
mod literal;
mod macros;
mod nodes;
mod syntax;

use binnacle_meta::Text;

use crate::ast::{Call, Expr, ExprKind, Id, Literal, Select, operators};
use crate::lexer::{self, Token, TokenKind as T};
use crate::source::{Issues, Location, Source};

/// kube-apiserver's limit, which appears in messages.
pub(crate) const MAX_CODE_POINTS: usize = 100_000;
const MAX_RECURSION: usize = 250;
/// The limit on nodes, as macros may copy their target and arguments; kube-apiserver has none.
const MAX_NODES: usize = 200_000;

/// Optional syntax that the environment enables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    /// `a.?b`, `a[?b]`, `[?a]`, `optMap`
    pub(crate) optionals: bool,
    /// `all(k, v, ...)` and the like
    pub(crate) two_variables: bool,
    /// `sortBy(x, ...)`
    pub(crate) lists: bool,
    /// `cel.bind(x, value, ...)`
    pub(crate) bind: bool,
    /// Disables macro expansion.
    pub(crate) no_macros: bool,
}

/// A syntax tree with the positions of its nodes.
#[derive(Debug)]
pub(crate) struct SyntaxTree {
    pub(crate) expr: Expr,
    /// The offset of each node by its number.
    pub(crate) positions: Vec<u32>,
}

pub(crate) fn parse(source: &Source, features: Features, issues: &mut Issues) -> Option<SyntaxTree> {
    let size = source.chars.len();
    if size > MAX_CODE_POINTS {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}");
        issues.add(Location::NONE, message);
        return None;
    }
    let tokens = lexer::tokens(source, issues);
    let mut parser = Parser {
        source,
        tokens: &tokens,
        at: 0,
        issues,
        positions: Vec::with_capacity(tokens.len()),
        depths: Vec::with_capacity(tokens.len()),
        features,
        open: OpenRules::default(),
    };
    let expr = match parser.parse() {
        Ok(expr) => Some(expr),
        Err(ParseError::Syntax) => {
            syntax::report(source, &tokens, parser.issues);
            None
        }
        Err(ParseError::Limit(message)) => {
            parser.issues.add(Location::NONE, message);
            None
        }
    };
    let positions = parser.positions;
    expr.filter(|_| issues.is_empty()).map(|expr| SyntaxTree { expr, positions })
}

enum ParseError {
    Syntax,
    Limit(String),
}

type ParseResult<T = Expr> = Result<T, ParseError>;

/// The number of open rules of each kind.
#[derive(Default)]
struct OpenRules {
    expr: usize,
    relation: usize,
    calc: usize,
}

struct Parser<'a> {
    source: &'a Source,
    tokens: &'a [Token],
    at: usize,
    issues: &'a mut Issues,
    positions: Vec<u32>,
    /// The nesting depth of operators, selections and calls of members below each node.
    depths: Vec<u16>,
    features: Features,
    open: OpenRules,
}

impl Parser<'_> {
    fn parse(&mut self) -> ParseResult {
        let expr = self.expr()?;
        self.expect(T::Eof)?;
        Ok(expr)
    }

    fn expr(&mut self) -> ParseResult {
        self.open.expr += 1;
        check_recursion(self.open.expr)?;
        let condition = stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.or())?;
        let expr = if let Some(op) = self.take(T::Question) {
            let id = self.id(op)?;
            let yes = self.or()?;
            self.expect(T::Colon)?;
            let no = self.expr()?;
            self.operator(id, operators::CONDITIONAL, vec![condition, yes, no])?
        } else {
            condition
        };
        self.open.expr -= 1;
        Ok(expr)
    }

    fn or(&mut self) -> ParseResult {
        let first = self.and()?;
        if self.peek() != T::Or {
            return Ok(first);
        }
        let (mut terms, mut ops) = (vec![first], Vec::new());
        while let Some(op) = self.take(T::Or) {
            terms.push(self.and()?);
            ops.push(self.id(op)?);
        }
        Ok(self.balanced(operators::OR, &ops, terms))
    }

    fn and(&mut self) -> ParseResult {
        let first = self.relation()?;
        if self.peek() != T::And {
            return Ok(first);
        }
        let (mut terms, mut ops) = (vec![first], Vec::new());
        while let Some(op) = self.take(T::And) {
            terms.push(self.relation()?);
            ops.push(self.id(op)?);
        }
        Ok(self.balanced(operators::AND, &ops, terms))
    }

    fn relation(&mut self) -> ParseResult {
        self.open.relation += 1;
        check_recursion(self.open.relation)?;
        let mut left = self.sum()?;
        loop {
            let function = match self.peek() {
                T::Less => "_<_",
                T::LessEquals => "_<=_",
                T::GreaterEquals => "_>=_",
                T::Greater => "_>_",
                T::Equals => operators::EQUALS,
                T::NotEquals => operators::NOT_EQUALS,
                T::In => "@in",
                _ => break,
            };
            let op = self.advance();
            let id = self.id(op)?;
            self.open.relation += 1;
            check_recursion(self.open.relation)?;
            let right = self.sum()?;
            self.open.relation -= 1;
            left = self.operator(id, function, vec![left, right])?;
        }
        self.open.relation -= 1;
        Ok(left)
    }

    fn sum(&mut self) -> ParseResult {
        self.open.calc += 1;
        check_recursion(self.open.calc)?;
        let mut left = self.product()?;
        loop {
            let function = match self.peek() {
                T::Plus => operators::ADD,
                T::Minus => "_-_",
                _ => break,
            };
            let op = self.advance();
            let id = self.id(op)?;
            self.open.calc += 1;
            check_recursion(self.open.calc)?;
            let right = self.product()?;
            self.open.calc -= 1;
            left = self.operator(id, function, vec![left, right])?;
        }
        self.open.calc -= 1;
        Ok(left)
    }

    fn product(&mut self) -> ParseResult {
        let mut left = self.unary()?;
        loop {
            let function = match self.peek() {
                T::Star => "_*_",
                T::Slash => "_/_",
                T::Percent => "_%_",
                _ => break,
            };
            let op = self.advance();
            let id = self.id(op)?;
            self.open.calc += 1;
            check_recursion(self.open.calc)?;
            let right = self.unary()?;
            self.open.calc -= 1;
            left = self.operator(id, function, vec![left, right])?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> ParseResult {
        let (kind, function) = match self.peek() {
            T::Exclam => (T::Exclam, operators::NOT),
            // A sign directly before a number is part of it.
            T::Minus if !matches!(self.peek_at(1), T::Int | T::Float) => (T::Minus, operators::NEGATE),
            _ => return self.member(),
        };
        let first = self.advance();
        let mut count = 1;
        while self.take(kind).is_some() {
            count += 1;
        }
        let id = if count % 2 == 1 { Some(self.id(first)?) } else { None };
        let operand = self.member()?;
        Ok(match id {
            Some(id) => {
                self.depths[id as usize] = self.depth(&operand);
                call(id, function, vec![operand])
            }
            None => operand,
        })
    }

    fn member(&mut self) -> ParseResult {
        let mut operand = self.primary()?;
        loop {
            match self.peek() {
                T::Dot => operand = self.select_or_call(operand)?,
                T::LBracket => {
                    let op = self.advance();
                    let optional = self.take(T::Question).is_some();
                    let id = self.id(op)?;
                    let index = self.expr()?;
                    self.expect(T::RBracket)?;
                    operand = if optional && !self.features.optionals {
                        self.unsupported(op, "unsupported syntax '[?'")?
                    } else {
                        let function = if optional { operators::OPT_INDEX } else { operators::INDEX };
                        self.operator(id, function, vec![operand, index])?
                    };
                }
                _ => return Ok(operand),
            }
        }
    }

    fn select_or_call(&mut self, operand: Expr) -> ParseResult {
        let dot = self.advance();
        if self.peek() == T::Identifier && self.peek_at(1) == T::LParen {
            let name = self.advance();
            let open = self.advance();
            let id = self.id(open)?;
            let args = self.arguments()?;
            return self.call_or_macro(id, &self.text(name), Some(operand), args);
        }
        let optional = self.take(T::Question).is_some();
        let name = match self.peek() {
            T::Identifier | T::EscIdentifier => self.advance(),
            _ => return Err(ParseError::Syntax),
        };
        let field = self.field_name(name)?;
        if !optional {
            let id = self.id(dot)?;
            self.nest(id, self.depth(&operand) + 1)?;
            let kind = ExprKind::Select(Box::new(Select { operand, field, test_only: false }));
            return Ok(Expr { id, kind });
        }
        if !self.features.optionals {
            return self.unsupported(dot, "unsupported syntax '.?'");
        }
        let name = Expr { id: self.id(name)?, kind: ExprKind::Literal(Literal::String(field)) };
        let id = self.id(dot)?;
        self.operator(id, operators::OPT_SELECT, vec![operand, name])
    }

    fn primary(&mut self) -> ParseResult {
        let token = self.tokens[self.at];
        match token.kind {
            T::Dot | T::Identifier => self.name(),
            T::LParen => {
                self.at += 1;
                let expr = self.expr()?;
                self.expect(T::RParen)?;
                Ok(expr)
            }
            T::LBracket => {
                self.at += 1;
                let id = self.id(token)?;
                let list = self.list()?;
                self.depths[id as usize] = self.deepest(&list.elements);
                Ok(Expr { id, kind: ExprKind::List(list) })
            }
            T::LBrace => {
                self.at += 1;
                let id = self.id(token)?;
                let entries = self.map()?;
                let depth = entries.iter().map(|e| self.depth(&e.key).max(self.depth(&e.value))).max();
                self.depths[id as usize] = depth.unwrap_or(0);
                Ok(Expr { id, kind: ExprKind::Map(entries) })
            }
            _ => self.literal(),
        }
    }

    /// Parses an identifier, a function call, or a message `a.b{...}`.
    fn name(&mut self) -> ParseResult {
        let leading = self.take(T::Dot).is_some();
        if self.peek() != T::Identifier {
            return Err(ParseError::Syntax);
        }
        let mut end = 1;
        while self.peek_at(end) == T::Dot && self.peek_at(end + 1) == T::Identifier {
            end += 2;
        }
        if self.peek_at(end) == T::LBrace {
            return self.message(leading, end);
        }
        let token = self.advance();
        let name = self.text(token);
        let open = self.take(T::LParen);
        let args = match open {
            Some(open) if !RESERVED.contains(&name.as_str()) => Some((self.id(open)?, self.arguments()?)),
            Some(_) => {
                // The arguments of a reserved word are parsed and discarded.
                let positions = self.positions.len();
                self.arguments()?;
                self.positions.truncate(positions);
                self.depths.truncate(positions);
                None
            }
            None => None,
        };
        if RESERVED.contains(&name.as_str()) {
            return self.unsupported(token, &format!("reserved identifier: {name}"));
        }
        let name = if leading { Text::from(format!(".{name}")) } else { name };
        match args {
            Some((id, args)) => self.call_or_macro(id, &name, None, args),
            None => Ok(Expr { id: self.id(token)?, kind: ExprKind::Ident(name) }),
        }
    }

    fn literal(&mut self) -> ParseResult {
        let first = self.tokens[self.at];
        let negative = first.kind == T::Minus;
        if negative {
            self.at += 1;
        }
        let token = self.tokens[self.at];
        let text = self.text(token);
        let value = match token.kind {
            T::Int => literal::int(&text, negative),
            T::Float => literal::double(&text, negative),
            _ if negative => return Err(ParseError::Syntax),
            T::Uint => literal::uint(&text),
            T::String => literal::string(&text),
            T::Bytes => literal::bytes(&text),
            T::True => Ok(Literal::Bool(true)),
            T::False => Ok(Literal::Bool(false)),
            T::Null => Ok(Literal::Null),
            _ => return Err(ParseError::Syntax),
        };
        self.at += 1;
        match value {
            Ok(value) => Ok(Expr { id: self.id(first)?, kind: ExprKind::Literal(value) }),
            Err(message) => self.unsupported(first, message),
        }
    }

    fn field_name(&mut self, token: Token) -> ParseResult<Text> {
        if token.kind == T::EscIdentifier {
            self.unsupported(token, "unsupported syntax: '`'")?;
        }
        Ok(self.text(token))
    }
}

fn check_recursion(open: usize) -> ParseResult<()> {
    if open > MAX_RECURSION {
        return Err(ParseError::Limit(format!("expression recursion limit exceeded: {MAX_RECURSION}")));
    }
    Ok(())
}

fn call(id: Id, function: &str, args: Vec<Expr>) -> Expr {
    Expr { id, kind: ExprKind::Call(Box::new(Call { function: function.into(), target: None, args })) }
}

fn balanced(function: &str, ops: &[Id], terms: &mut std::vec::IntoIter<Expr>) -> Expr {
    if ops.is_empty() {
        return terms.next().expect("there is one term more than operators");
    }
    let middle = ops.len() / 2;
    let left = balanced(function, &ops[..middle], terms);
    let right = balanced(function, &ops[middle + 1..], terms);
    call(ops[middle], function, vec![left, right])
}

/// Reserved words, which cannot be names.
pub(crate) const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];
