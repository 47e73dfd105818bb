//! The syntax tree of an expression after macro expansion.

use binnacle_meta::Text;

/// The ID of a node: its index in the tables of positions, types and references.
pub(crate) type Id = u32;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A placeholder where the text does not parse.
    Unspecified,
    Literal(Literal),
    Ident(Text),
    Select(Box<Select>),
    Call(Box<Call>),
    List(List),
    Map(Vec<MapEntry>),
    Struct(Struct),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Text,
    /// `has(operand.field)`
    pub(crate) test_only: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Text,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) elements: Vec<Expr>,
    /// The indexes of elements written `?element`, in order.
    pub(crate) optional: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: Text,
    pub(crate) fields: Vec<FieldInit>,
}

#[derive(Clone, Debug)]
pub(crate) struct FieldInit {
    pub(crate) id: Id,
    pub(crate) name: Text,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop over `range`: `accumulator` starts as `init` and becomes `step` for each element while `condition` is not
/// false; the value is `result`.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: Text,
    /// With two variables the first one is the index or key, and the second one the element or value.
    pub(crate) variable2: Option<Text>,
    pub(crate) accumulator: Text,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// Returns the expression as a dotted name, `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.test_only => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }

    pub(crate) fn as_string_literal(&self) -> Option<&Text> {
        match &self.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// Function names of operators.
pub(crate) mod operators {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    /// Not a valid identifier, unlike the name in older versions.
    pub(crate) const ACCUMULATOR: &str = "@result";
}

impl Expr {
    /// Visits every node, outer ones first.
    pub(crate) fn visit(&self, see: &mut impl FnMut(&Expr)) {
        see(self);
        stacker::maybe_grow(32 * 1024, 1024 * 1024, || {
            self.for_each_child(&mut |child| child.visit(see));
        });
    }

    fn for_each_child(&self, see: &mut dyn FnMut(&Expr)) {
        match &self.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => see(&select.operand),
            ExprKind::Call(call) => call.target.iter().chain(&call.args).for_each(see),
            ExprKind::List(list) => list.elements.iter().for_each(see),
            ExprKind::Map(entries) => entries.iter().for_each(|entry| {
                see(&entry.key);
                see(&entry.value);
            }),
            ExprKind::Struct(message) => message.fields.iter().for_each(|field| see(&field.value)),
            ExprKind::Comprehension(fold) => {
                [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter().for_each(see);
            }
        }
    }
}
