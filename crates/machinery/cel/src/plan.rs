//! Programs: expressions with resolved names and folded constants.

use std::collections::HashSet;

use binnacle_meta::Text;

use crate::ast::{Call, Comprehension, Expr, ExprKind, List, Literal, MapEntry, Struct, operators};
use crate::check::{CheckedAst, Reference};
use crate::cost::{self, ActualCost};
use crate::error::Error;
use crate::functions::Function;
use crate::meter::Meter;
use crate::regexp::{self, GoRegex};
use crate::types::Type;
use crate::value::{Entries, Key, Map, Val};

/// A compiled expression, which can be evaluated any number of times and by many threads.
#[derive(Debug)]
pub struct Program {
    pub(crate) plan: Plan,
    /// The maximum number of loop variables at a time.
    pub(crate) slots: usize,
    output: Type,
}

impl Program {
    /// With `fold`, constant parts are evaluated here, as in kube-apiserver, and are free later.
    pub(crate) fn new(checked: &CheckedAst, fold: bool) -> Result<Self, Error> {
        let mut planner = Planner { checked, fold, scope: Vec::new(), slots: 0, depth: 0 };
        let plan = planner.plan(&checked.expr)?;
        Ok(Self { plan, slots: planner.slots, output: checked.ty(checked.expr.id).clone() })
    }

    /// Returns the type of the result.
    pub fn output_type(&self) -> &Type {
        &self.output
    }
}

#[derive(Debug)]
pub(crate) enum Plan {
    Const(Val<'static>),
    Attribute(Box<Attribute>),
    And(Box<(Plan, Plan)>),
    Or(Box<(Plan, Plan)>),
    Equals {
        operands: Box<(Plan, Plan)>,
        negated: bool,
    },
    NotStrictlyFalse(Box<Plan>),
    Call(Box<CallPlan>),
    /// `matches` and the like with a constant pattern.
    Regex {
        text: Box<Plan>,
        regex: GoRegex,
        pattern_size: u64,
    },
    /// `in` with a constant list of scalars.
    InSet {
        value: Box<Plan>,
        set: HashSet<Key>,
    },
    List(Box<ListPlan>),
    Map(Box<[(Plan, Plan, bool)]>),
    Message(Box<MessagePlan>),
    /// `optional.or(other)` and `optional.orValue(value)`, which evaluate the other operand only if needed.
    OptionalOr {
        operands: Box<(Plan, Plan)>,
        unwrap: bool,
    },
    /// `@result + [element]` in a loop: the accumulator's list is extended in place.
    Append {
        slot: usize,
        element: Box<Plan>,
        /// The cost of creating the list of the element: none for a constant.
        list: u64,
    },
    /// `cel.@mapInsert(@result, key, value)` or `cel.@mapInsert(@result, map)` in a loop: the accumulator's map is
    /// extended in place.
    Insert {
        slot: usize,
        entry: Box<[Plan]>,
    },
    Fold(Box<Fold>),
    /// Inserted at intervals of depth, where more stack may be needed.
    Deep(Box<Plan>),
}

/// A variable or value and the members selected from it, evaluated as a unit.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) path: Vec<Qualifier>,
    /// True for `has(...)`, the presence test of the last member.
    pub(crate) test: bool,
}

#[derive(Debug)]
pub(crate) enum Root {
    Variable(usize, Text),
    Local(usize),
    Value(Plan),
    Conditional(Box<(Plan, Plan, Plan)>),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Name(Text),
    Const(Val<'static>),
    Dynamic(Plan),
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) function: &'static Function,
    pub(crate) overload: Option<usize>,
    pub(crate) args: Vec<Plan>,
    pub(crate) cost: ActualCost,
    /// True for a search with a constant pattern. Its error for other arguments does not contain their types.
    pub(crate) has_constant_pattern: bool,
}

#[derive(Debug)]
pub(crate) struct ListPlan {
    pub(crate) elements: Vec<Plan>,
    pub(crate) optional: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct MessagePlan {
    pub(crate) name: Text,
    pub(crate) fields: Vec<(Text, Plan, bool)>,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Plan,
    /// The slots of the variable, of the second one if there are two, and of the accumulator.
    pub(crate) variable: usize,
    pub(crate) variable2: Option<usize>,
    pub(crate) accumulator: usize,
    pub(crate) init: Plan,
    /// True if the loop uses the initial value.
    pub(crate) init_used: bool,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
}

struct Planner<'c> {
    checked: &'c CheckedAst,
    fold: bool,
    /// The names of the variables of enclosing loops; the index is the slot.
    scope: Vec<Text>,
    slots: usize,
    depth: usize,
}

/// The interval of levels at which deep plans check the stack.
const STACK_CHECK: usize = 24;

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Result<Plan, Error> {
        self.depth += 1;
        let deep = self.depth.is_multiple_of(STACK_CHECK);
        let plan = if deep {
            stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.plan_node(expr)).map(|plan| match plan {
                plan @ (Plan::Const(_) | Plan::Attribute(_)) => plan,
                plan => Plan::Deep(Box::new(plan)),
            })
        } else {
            self.plan_node(expr)
        };
        self.depth -= 1;
        plan
    }

    fn plan_node(&mut self, expr: &Expr) -> Result<Plan, Error> {
        match &expr.kind {
            ExprKind::Unspecified => unreachable!("expressions with errors are not planned"),
            ExprKind::Literal(literal) => Ok(Plan::Const(constant(literal))),
            ExprKind::Ident(_) => Ok(self.reference(expr)),
            ExprKind::Select(_) if self.checked.reference(expr.id).is_some() => Ok(self.reference(expr)),
            ExprKind::Select(select) => {
                let operand = self.plan(&select.operand)?;
                let qualifier = Qualifier { key: QualifierKey::Name(select.field.clone()), optional: false };
                Ok(qualified(operand, qualifier, select.test_only))
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(list) => self.list(list),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(message) => self.message(message),
            ExprKind::Comprehension(fold) => self.fold(fold),
        }
    }

    /// Returns the plan for the name of a variable or type.
    fn reference(&self, expr: &Expr) -> Plan {
        let root = match self.checked.reference(expr.id) {
            Some(Reference::Variable(index)) => {
                Root::Variable(*index, expr.qualified_name().unwrap_or_default().into())
            }
            Some(Reference::Local(name)) => {
                let slot = self.scope.iter().rposition(|known| known == name);
                Root::Local(slot.expect("the checker knows the variables of loops"))
            }
            Some(Reference::TypeName(ty)) => return Plan::Const(Val::Type(ty.clone().into())),
            Some(Reference::Function(..)) | None => unreachable!("the checker resolves all names"),
        };
        Plan::Attribute(Box::new(Attribute { root, path: Vec::new(), test: false }))
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Result<Plan, Error> {
        if call.function == operators::OPT_SELECT {
            let operand = self.plan(&call.args[0])?;
            let field = call.args[1].as_string_literal().expect("the parser gives a literal").clone();
            return Ok(qualified(operand, Qualifier { key: QualifierKey::Name(field), optional: true }, false));
        }
        let Some(Reference::Function(function, overloads)) = self.checked.reference(expr.id) else {
            unreachable!("the checker resolves all calls");
        };
        // A function with a dotted name looks like a member call but has no target.
        let target = call.target.as_ref().filter(|_| function.overloads[overloads[0]].member);
        let overload = if let [only] = overloads[..] { Some(only) } else { None };
        let id = overload.map_or("", |index| function.overloads[index].id);
        if let Some(append) = self.append(call) {
            return append;
        }
        if let Some(slot) = self.inserts_into(function, call) {
            let entry = call.args[1..].iter().map(|arg| self.plan(arg)).collect::<Result<_, _>>()?;
            return Ok(Plan::Insert { slot, entry });
        }
        let mut has_constant_pattern = false;
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in target.into_iter().chain(&call.args) {
            args.push(self.plan(arg)?);
        }
        match (function.name, &mut args[..]) {
            (operators::AND, [a, b]) => return Ok(Plan::And(Box::new((take(a), take(b))))),
            (operators::OR, [a, b]) => return Ok(Plan::Or(Box::new((take(a), take(b))))),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                let root = Root::Conditional(Box::new((take(condition), take(yes), take(no))));
                return Ok(Plan::Attribute(Box::new(Attribute { root, path: Vec::new(), test: false })));
            }
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
                let negated = function.name == operators::NOT_EQUALS;
                return Ok(Plan::Equals { operands: Box::new((take(a), take(b))), negated });
            }
            (operators::NOT_STRICTLY_FALSE, [value]) => return Ok(Plan::NotStrictlyFalse(Box::new(take(value)))),
            (operators::INDEX | operators::OPT_INDEX, [operand, index]) => {
                let optional = function.name == operators::OPT_INDEX;
                let key = match take(index) {
                    Plan::Const(Val::Str(name)) => QualifierKey::Name((*name).into()),
                    Plan::Const(value) => match value.not_a_qualifier() {
                        Some(kind) => return Err(Error::new(format!("invalid qualifier type: {kind}"))),
                        None => QualifierKey::Const(value),
                    },
                    plan => QualifierKey::Dynamic(plan),
                };
                return Ok(qualified(take(operand), Qualifier { key, optional }, false));
            }
            ("or", [a, b]) if matches!(id, "" | "optional_or_optional") => {
                return Ok(Plan::OptionalOr { operands: Box::new((take(a), take(b))), unwrap: false });
            }
            ("orValue", [a, b]) if matches!(id, "" | "optional_orValue_value") => {
                return Ok(Plan::OptionalOr { operands: Box::new((take(a), take(b))), unwrap: true });
            }
            ("@in", [value, Plan::Const(Val::List(list))]) if self.fold && id == "in_list" => {
                let keys: Option<HashSet<Key>> =
                    list.iter().map(|item| item.ok().and_then(|item| Key::of(&item))).collect();
                match keys {
                    Some(keys) if keys.is_empty() => return Ok(Plan::Const(Val::Bool(false))),
                    Some(keys) => return Ok(Plan::InSet { value: Box::new(take(value)), set: keys }),
                    None => {}
                }
            }
            ("matches", [text, Plan::Const(Val::Str(pattern))]) if self.fold => {
                let regex = regexp::get(pattern)?;
                let pattern_size = pattern.char_count() as u64;
                return Ok(Plan::Regex { text: Box::new(take(text)), regex, pattern_size });
            }
            ("find" | "findAll", [_, Plan::Const(Val::Str(pattern)), ..]) if self.fold => {
                regexp::check(pattern)?;
                has_constant_pattern = true;
            }
            (name, [Plan::Const(value)]) if self.fold && is_conversion(name) => {
                let meter = Meter::new(u64::MAX);
                return Ok(Plan::Const(function.call(overload, &meter, std::slice::from_ref(value))?));
            }
            _ => {}
        }
        let cost = cost::of_call(function.name, id);
        Ok(Plan::Call(Box::new(CallPlan { function, overload, args, cost, has_constant_pattern })))
    }

    /// Returns the accumulator of `cel.@mapInsert(@result, ...)`.
    fn inserts_into(&self, function: &Function, call: &Call) -> Option<usize> {
        let ExprKind::Ident(name) = &call.args.first()?.kind else { return None };
        if function.name != "cel.@mapInsert" || name != operators::ACCUMULATOR {
            return None;
        }
        self.scope.iter().rposition(|known| known == name)
    }

    /// `@result + [element]`
    fn append(&mut self, call: &Call) -> Option<Result<Plan, Error>> {
        let [Expr { kind: ExprKind::Ident(name), .. }, Expr { kind: ExprKind::List(list), .. }] = &call.args[..] else {
            return None;
        };
        if call.function != operators::ADD || name != operators::ACCUMULATOR || !list.optional.is_empty() {
            return None;
        }
        let [element] = &list.elements[..] else { return None };
        let slot = self.scope.iter().rposition(|known| known == name)?;
        Some(self.plan(element).map(|element| {
            let list = if self.fold && matches!(element, Plan::Const(_)) { 0 } else { cost::LIST };
            Plan::Append { slot, element: Box::new(element), list }
        }))
    }

    fn list(&mut self, list: &List) -> Result<Plan, Error> {
        let elements = list.elements.iter().map(|element| self.plan(element)).collect::<Result<Vec<_>, _>>()?;
        let constants: Option<Vec<_>> = elements.iter().map(as_const).collect();
        Ok(match constants {
            Some(values) if self.fold && list.optional.is_empty() => Plan::Const(Val::list(values)),
            _ => Plan::List(Box::new(ListPlan { elements, optional: list.optional.clone() })),
        })
    }

    fn map(&mut self, entries: &[MapEntry]) -> Result<Plan, Error> {
        let mut planned = Vec::with_capacity(entries.len());
        for MapEntry { key, value, optional } in entries {
            planned.push((self.plan(key)?, self.plan(value)?, *optional));
        }
        let constant = planned
            .iter()
            .all(|(key, value, optional)| !optional && matches!((key, value), (Plan::Const(_), Plan::Const(_))));
        if !(constant && self.fold) {
            return Ok(Plan::Map(planned.into()));
        }
        let mut map = Entries::default();
        for (key, value, _) in planned {
            if let (Plan::Const(key), Plan::Const(value)) = (key, value) {
                map.insert(key, value)?;
            }
        }
        Ok(Plan::Const(Val::Map(Map::Entries(map.into()))))
    }

    fn message(&mut self, message: &Struct) -> Result<Plan, Error> {
        let mut fields = Vec::with_capacity(message.fields.len());
        for field in &message.fields {
            fields.push((field.name.clone(), self.plan(&field.value)?, field.optional));
        }
        let name = message.name.trim_start_matches('.').into();
        Ok(Plan::Message(Box::new(MessagePlan { name, fields })))
    }

    fn fold(&mut self, fold: &Comprehension) -> Result<Plan, Error> {
        let init = self.plan(&fold.init)?;
        let range = self.plan(&fold.range)?;
        let outer = self.scope.len();
        self.scope.push(fold.accumulator.clone());
        let accumulator = outer;
        self.scope.push(fold.variable.clone());
        let variable2 = fold.variable2.as_ref().map(|name| {
            self.scope.push(name.clone());
            outer + 2
        });
        self.slots = self.slots.max(self.scope.len());
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        // The result can use the accumulator, but not the variables: impossible names keep their slots.
        for name in &mut self.scope[outer + 1..] {
            *name = Text::default();
        }
        let result = self.plan(&fold.result)?;
        self.scope.truncate(outer);
        let empty = matches!(&fold.range.kind, ExprKind::List(list) if list.elements.is_empty());
        let init_used = !empty || mentions(&fold.result, &fold.accumulator);
        let variable = outer + 1;
        Ok(Plan::Fold(Box::new(Fold {
            range,
            variable,
            variable2,
            accumulator,
            init,
            init_used,
            condition,
            step,
            result,
        })))
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    expr.visit(&mut |expr| {
        binnacle_work::pace(1);
        found |= matches!(&expr.kind, ExprKind::Ident(known) if known == name);
    });
    found
}

/// Returns the plan with one more member selected from it.
fn qualified(operand: Plan, qualifier: Qualifier, test: bool) -> Plan {
    let mut attribute = match operand {
        Plan::Attribute(attribute) if !attribute.test => attribute,
        plan => Box::new(Attribute { root: Root::Value(plan), path: Vec::new(), test: false }),
    };
    attribute.path.push(qualifier);
    attribute.test = test;
    Plan::Attribute(attribute)
}

fn take(plan: &mut Plan) -> Plan {
    std::mem::replace(plan, Plan::Const(Val::Null))
}

fn as_const(plan: &Plan) -> Option<Val<'static>> {
    match plan {
        Plan::Const(value) => Some(value.clone()),
        _ => None,
    }
}

fn constant(literal: &Literal) -> Val<'static> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(b) => Val::Bool(*b),
        Literal::Int(n) => Val::Int(*n),
        Literal::Uint(n) => Val::Uint(*n),
        Literal::Double(n) => Val::Double(*n),
        Literal::String(text) => Val::str(text.as_str()),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

fn is_conversion(name: &str) -> bool {
    matches!(name, "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint")
}
