//! Estimates of the minimum and maximum cost of an expression, without its values.

use std::collections::HashMap;

use binnacle_meta::Text;

use super::calls::{self, AstNode};
use super::estimate::Estimate;
use super::variables::Variables;
use super::{LIST, MAP, MESSAGE, SELECT, STRING_TRAVERSAL};
use crate::ast::{Call, Comprehension, Expr, ExprKind, Id, List, Literal, MapEntry, operators};
use crate::check::{CheckedAst, Reference};
use crate::decl_type::DeclType;
use crate::types::Type;

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntrySizes {
    is_list: bool,
    key: Estimate,
    value: Estimate,
}

impl EntrySizes {
    fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

type Path = Vec<Text>;

struct LoopVariable {
    path: Path,
    size: Option<Estimate>,
    entries: Option<EntrySizes>,
}

pub(crate) struct Coster<'a> {
    pub(crate) checked: &'a CheckedAst,
    variables: Variables<'a>,
    paths: HashMap<Id, Path>,
    locals: HashMap<Text, Vec<LoopVariable>>,
    sizes: HashMap<Id, Estimate>,
    entries: HashMap<Id, EntrySizes>,
}

pub(crate) fn estimate<'a>(checked: &'a CheckedAst, variables: &'a dyn Fn(&str) -> Option<&'a DeclType>) -> Estimate {
    let mut coster = Coster {
        checked,
        variables: Variables(variables),
        paths: HashMap::new(),
        locals: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(&checked.expr)
}

impl<'a> Coster<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Estimate {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => Estimate::fixed(0),
            ExprKind::Ident(name) => self.ident(expr.id, name),
            ExprKind::Select(_) if self.checked.reference(expr.id).is_some() => {
                let name = expr.qualified_name().unwrap_or_default();
                self.ident(expr.id, &name)
            }
            _ => stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.cost_of_parts(expr)),
        }
    }

    fn cost_of_parts(&mut self, expr: &'a Expr) -> Estimate {
        match &expr.kind {
            ExprKind::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test_only {
                    return operand;
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expr.id, path);
                match self.checked.ty(select.operand.id) {
                    Type::Map(_) | Type::Object(_) | Type::Param(_) => operand.plus(Estimate::fixed(SELECT)),
                    _ => operand,
                }
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(list) => self.list(expr.id, list),
            ExprKind::Map(entries) => self.map(expr.id, entries),
            ExprKind::Struct(message) => {
                let fields = message.fields.iter().map(|field| self.cost(&field.value));
                fields.fold(Estimate::fixed(MESSAGE), Estimate::plus)
            }
            ExprKind::Comprehension(fold) if is_bind(fold) => {
                let cost = self.cost(&fold.range).plus(self.cost(&fold.init));
                self.push_local(&fold.accumulator, &fold.init);
                let cost = cost.plus(self.cost(&fold.result));
                self.pop(&fold.accumulator);
                self.copy_sizes(expr.id, &fold.result);
                cost
            }
            ExprKind::Comprehension(fold) => self.comprehension(expr.id, fold),
            _ => unreachable!("expressions without parts were looked at before"),
        }
    }

    fn ident(&mut self, id: Id, name: &str) -> Estimate {
        let path = match self.local(name) {
            Some(local) => local.path.clone(),
            None => vec![name.trim_start_matches('.').into()],
        };
        self.paths.insert(id, path);
        Estimate::fixed(SELECT)
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> Estimate {
        if call.function == "dyn" && call.target.is_none() {
            let cost = self.cost(&call.args[0]);
            self.copy_sizes(expr.id, &call.args[0]);
            return cost.plus(Estimate::fixed(1));
        }
        let mut sum = Estimate::fixed(0);
        let mut args = Vec::with_capacity(call.args.len());
        let mut costs = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(arg));
            args.push(self.node(arg));
        }
        if call.function == operators::OPT_SELECT {
            // kube-apiserver uses the default cost of functions here.
            return costs.into_iter().fold(Estimate::fixed(1), Estimate::plus);
        }
        let Some(Reference::Function(function, overloads)) = self.checked.reference(expr.id) else {
            return Estimate::fixed(0);
        };
        let target = call.target.as_ref().filter(|_| function.overloads[overloads[0]].member);
        let target = target.map(|target| {
            sum = sum.plus(self.cost(target));
            self.node(target)
        });
        let mut cost = Estimate { min: u64::MAX, max: 0 };
        let mut size: Option<Estimate> = None;
        for index in overloads {
            let overload = function.overloads[*index].id;
            let (estimate, result) = self.function(expr, function.name, overload, target.as_ref(), &args, &costs);
            cost = cost.union(estimate);
            size = match (size, result) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let "index_list" | "index_map" = overload {
                size = self.entries_of(&call.args[0]).map(|entries| entries.value);
                let mut path = self.path(&call.args[0]);
                path.push(if overload == "index_list" { "@items" } else { "@values" }.into());
                self.paths.insert(expr.id, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(cost)
    }

    /// Returns the cost of a call with its arguments, and the size of the result.
    fn function(
        &mut self,
        expr: &'a Expr,
        function: &str,
        overload: &str,
        target: Option<&AstNode<'a>>,
        args: &[AstNode<'a>],
        costs: &[Estimate],
    ) -> (Estimate, Option<Estimate>) {
        let arguments = costs.iter().fold(Estimate::fixed(0), |sum, cost| sum.plus(*cost));
        let entries = |coster: &Self, i: usize| args[i].expr.and_then(|arg| coster.entries_of(arg));
        match overload {
            "logical_or" | "logical_and" => {
                (Estimate { min: costs[0].min, max: costs[0].max.saturating_add(costs[1].max) }, None)
            }
            "conditional" => {
                if let (Some(a), Some(b)) = (entries(self, 1), entries(self, 2)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let size = args[1].size().union(args[2].size());
                (costs[0].plus(costs[1].union(costs[2])), Some(size))
            }
            "add_string" | "add_bytes" | "add_list" => {
                let size = args[0].size().plus(args[1].size());
                if let (Some(a), Some(b)) = (entries(self, 0), entries(self, 1)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let own = if overload == "add_list" { Estimate::fixed(1) } else { size.scaled(STRING_TRAVERSAL) };
                (own.plus(arguments), Some(size))
            }
            _ => {
                let (own, size) = calls::estimate(&self.variables, function, overload, target, args);
                (own.plus(arguments), size)
            }
        }
    }

    fn list(&mut self, id: Id, list: &'a List) -> Estimate {
        let mut cost = Estimate::fixed(LIST);
        let mut value = Estimate { min: if list.elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for element in &list.elements {
            cost = cost.plus(self.cost(element));
            value = value.union(self.size_or_unknown(element));
        }
        self.entries.insert(id, EntrySizes { is_list: true, key: Estimate::fixed(1), value });
        cost
    }

    fn map(&mut self, id: Id, entries: &'a [MapEntry]) -> Estimate {
        let mut cost = Estimate::fixed(MAP);
        let none = Estimate { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut key, mut value) = (none, none);
        for entry in entries {
            cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(id, EntrySizes { is_list: false, key, value });
        cost
    }

    fn comprehension(&mut self, id: Id, fold: &'a Comprehension) -> Estimate {
        let mut cost = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_local(&fold.accumulator, &fold.init);
        match &fold.variable2 {
            Some(second) => {
                self.push_element(&fold.variable, &fold.range, ElementKind::Key);
                self.push_element(second, &fold.range, ElementKind::Value);
            }
            None => self.push_element(&fold.variable, &fold.range, ElementKind::Single),
        }
        let round = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.pop(&fold.variable);
        if let Some(second) = &fold.variable2 {
            self.pop(second);
        }
        cost = cost.plus(self.cost(&fold.result));
        self.pop(&fold.accumulator);
        let rounds = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(id, size);
                }
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes.insert(id, rounds);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(id, entries);
                }
            }
            _ => {}
        }
        cost.plus(rounds.times(round))
    }

    // === Variables ===

    fn local(&self, name: &str) -> Option<&LoopVariable> {
        self.locals.get(name)?.last()
    }

    fn push_local(&mut self, name: &Text, value: &'a Expr) {
        let local = LoopVariable { path: self.path(value), size: self.size(value), entries: self.entries_of(value) };
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn push_element(&mut self, name: &Text, range: &'a Expr, element: ElementKind) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.ty(range.id), Type::List(_)),
        };
        let value = match element {
            ElementKind::Key => false,
            ElementKind::Value => true,
            ElementKind::Single => is_list,
        };
        let mut path = self.path(range);
        path.push(Text::new_static(match (value, is_list) {
            (true, true) => "@items",
            (true, false) => "@values",
            (false, true) => "@indices",
            (false, false) => "@keys",
        }));
        let size = entries.map(|entries| if value { entries.value } else { entries.key });
        self.locals.entry(name.clone()).or_default().push(LoopVariable { path, size, entries: None });
    }

    fn pop(&mut self, name: &Text) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    // === Sizes ===

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn node(&mut self, expr: &'a Expr) -> AstNode<'a> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == operators::ACCUMULATOR) {
            path.clear();
        }
        AstNode { path, ty: self.checked.ty(expr.id).clone(), expr: Some(expr), size: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &'a Expr) -> Estimate {
        self.size(expr).unwrap_or(Estimate::UNKNOWN)
    }

    fn size(&mut self, expr: &'a Expr) -> Option<Estimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Estimate::fixed(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.variables.size_at(&path) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.ty(expr.id)) {
            return Some(Estimate::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<EntrySizes> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: Id, from: &'a Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to, entries);
        }
    }
}

enum ElementKind {
    Key,
    Value,
    /// The element of a list or the key of a map.
    Single,
}

/// Returns true for an empty loop that only binds a name to a value, as in the expansion of `cel.bind`.
fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, ExprKind::List(list) if list.elements.is_empty())
        && matches!(&fold.condition.kind, ExprKind::Literal(Literal::Bool(false)))
}

fn literal_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => Some(text.chars().count() as u64),
        ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len() as u64),
        ExprKind::Literal(_) => Some(1),
        ExprKind::List(list) => Some(list.elements.len() as u64),
        ExprKind::Map(entries) => Some(entries.len() as u64),
        _ => None,
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        ty => ty.as_optional().is_some_and(is_scalar),
    }
}
