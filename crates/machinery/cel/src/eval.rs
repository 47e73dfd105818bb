//! The evaluator: runs a plan and counts the cost.

use crate::cost::{self, STRING_TRAVERSAL};
use crate::error::Error;
use crate::meter::Meter;
use crate::plan::{Attribute, CallPlan, Fold, ListPlan, MessagePlan, Plan, Program, Qualifier, QualifierKey, Root};
use crate::value::{Entries, Key, MAX_DEPTH, Map, Message, Val, equal, unequal};
use std::sync::Arc;

/// The cost limit of one evaluation: Kubernetes' limit for a single expression.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// The values of the variables of an environment.
#[derive(Clone, Debug)]
pub struct Activation<'a> {
    values: Vec<Option<Result<Val<'a>, Error>>>,
}

impl<'a> Activation<'a> {
    /// Returns an empty activation for this number of variables, for programs without their environment.
    pub fn for_variables(variables: usize) -> Self {
        Self { values: vec![None; variables] }
    }

    /// Sets a variable by its number (see [`crate::Environment::variable_index`]).
    ///
    /// # Panics
    /// If there is no variable of this number.
    pub fn set(&mut self, index: usize, value: Val<'a>) {
        self.set_or_fail(index, Ok(value));
    }

    /// Sets a variable by its number to a value, or to an error for expressions that use it.
    ///
    /// # Panics
    /// If there is no variable of this number.
    pub fn set_or_fail(&mut self, index: usize, value: Result<Val<'a>, Error>) {
        self.values[index] = Some(value);
    }

    /// Returns the activation with one variable set: `env.activation().with(0, value)`.
    pub fn with(mut self, index: usize, value: Val<'a>) -> Self {
        self.set(index, value);
        self
    }
}

/// A result and its cost.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    pub result: Result<Val<'a>, Error>,
    pub cost: u64,
}

impl Program {
    /// Evaluates the program with a limit on its cost.
    ///
    /// # Errors
    /// The error of the expression, or that it exceeds the limit.
    pub fn eval<'a>(&'a self, activation: &Activation<'a>, limit: u64) -> Result<Val<'a>, Error> {
        self.evaluate(activation, limit).result
    }

    /// Evaluates the program. Also returns the cost if it fails.
    pub fn evaluate<'a>(&'a self, activation: &Activation<'a>, limit: u64) -> Evaluation<'a> {
        let meter = Meter::new(limit);
        let mut eval = Eval { meter: &meter, variables: activation, slots: vec![Ok(Val::Null); self.slots] };
        let result = eval.plan(&self.plan);
        Evaluation { result, cost: meter.cost() }
    }
}

struct Eval<'a, 'm> {
    meter: &'m Meter,
    variables: &'m Activation<'a>,
    /// The variables of loops. An accumulator may hold an error, which a later iteration may absorb.
    slots: Vec<EvalResult<'a>>,
}

type EvalResult<'a> = Result<Val<'a>, Error>;

impl<'a> Eval<'a, '_> {
    fn plan(&mut self, plan: &'a Plan) -> EvalResult<'a> {
        self.meter.work(1)?;
        match plan {
            Plan::Const(value) => Ok(value.borrow()),
            Plan::Attribute(attribute) => {
                let value = self.attribute(attribute);
                // Conditions and presence tests cost nothing themselves.
                if !attribute.test && !matches!(attribute.root, Root::Conditional(_)) {
                    self.meter.charge(cost::SELECT)?;
                }
                value
            }
            Plan::And(operands) => self.logic(operands, false),
            Plan::Or(operands) => self.logic(operands, true),
            Plan::Equals { operands, negated } => {
                let a = split_aborts(self.plan(&operands.0))?;
                let b = split_aborts(self.plan(&operands.1))?;
                let (a, b) = match (a, b) {
                    (Ok(a), Ok(b)) => (a, b),
                    (Err(error), _) | (_, Err(error)) => {
                        self.meter.charge(1)?;
                        return Err(error);
                    }
                };
                // The size of a string is counted.
                self.meter.work((a.bytes() + b.bytes()) as u64 / 16)?;
                let holds = if *negated { unequal(self.meter, &a, &b) } else { equal(self.meter, &a, &b) };
                let size = if matches!(a, Val::Opaque(_)) { 10 } else { a.size().min(b.size()) };
                self.meter.charge(cost::scaled(size, STRING_TRAVERSAL))?;
                Ok(Val::Bool(holds?))
            }
            Plan::NotStrictlyFalse(operand) => {
                let value = split_aborts(self.plan(operand))?;
                self.meter.charge(1)?;
                Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false)))))
            }
            Plan::Call(call) => self.call(call),
            Plan::Regex { text, regex, pattern_size } => {
                let text = self.plan(text)?;
                let result = match &text {
                    Val::Str(text) => Ok(Val::Bool(regex.is_match(text)?)),
                    _ => Err(Error::no_such_overload()),
                };
                self.meter.work(text.bytes() as u64 / 16)?;
                let text_cost = cost::scaled(text.size() + 1, STRING_TRAVERSAL);
                self.meter.charge(text_cost.saturating_mul(cost::scaled(*pattern_size, cost::REGEX)))?;
                result
            }
            Plan::InSet { value, set } => {
                let value = self.plan(value)?;
                self.meter.key(&value)?;
                Ok(Val::Bool(Key::of(&value).is_some_and(|key| set.contains(&key))))
            }
            Plan::List(list) => {
                let value = self.list(list);
                self.meter.charge(cost::LIST)?;
                value
            }
            Plan::Map(entries) => {
                let value = self.map(entries);
                self.meter.charge(cost::MAP)?;
                value
            }
            Plan::Message(message) => {
                let value = self.message(message);
                self.meter.charge(cost::MESSAGE)?;
                value
            }
            Plan::OptionalOr { operands, unwrap } => {
                let value = match self.plan(&operands.0)? {
                    Val::Optional(Some(value)) if *unwrap => (*value).clone(),
                    Val::Optional(None) => self.plan(&operands.1)?,
                    value => value,
                };
                Ok(value)
            }
            Plan::Append { slot, element, list } => {
                // The costs of reading the accumulator, creating a list, and concatenating both.
                self.meter.charge(cost::SELECT)?;
                let element = self.plan(element)?;
                self.meter.charge(list + 1)?;
                match std::mem::replace(&mut self.slots[*slot], Ok(Val::Null))? {
                    Val::List(list) => check_depth(Val::List(list.push(self.meter, element)?)),
                    _ => Err(Error::no_such_overload()),
                }
            }
            Plan::Insert { slot, entry } => self.insert(*slot, entry),
            Plan::Fold(fold) => self.fold(fold),
            Plan::Deep(plan) => stacker::maybe_grow(256 * 1024, 1024 * 1024, || self.plan(plan)),
        }
    }

    /// Evaluates `&&` and `||`: the deciding value takes precedence over an error on the other side.
    fn logic(&mut self, operands: &'a (Plan, Plan), deciding: bool) -> EvalResult<'a> {
        let mut failed = None;
        for operand in [&operands.0, &operands.1] {
            match split_aborts(self.plan(operand))? {
                Ok(Val::Bool(value)) if value == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(Error::no_such_overload())),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Val::Bool(!deciding)),
        }
    }

    // === Variables and members ===

    /// Returns the value of an attribute, charging for its parts but not for the access itself.
    fn attribute(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        let value = match &attribute.root {
            Root::Variable(index, name) => match &self.variables.values[*index] {
                Some(value) => value.clone()?,
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Root::Local(slot) => self.slots[*slot].clone()?,
            Root::Value(plan) => self.plan(plan)?,
            Root::Conditional(parts) => {
                let branch = match self.plan(&parts.0)? {
                    Val::Bool(true) => &parts.1,
                    Val::Bool(false) => &parts.2,
                    _ => return Err(Error::no_such_overload()),
                };
                self.unobserved(branch)?
            }
        };
        if attribute.path.is_empty() {
            return Ok(value);
        }
        self.qualify(value, attribute)
    }

    /// Evaluates a plan, without the cost of the access if it is an attribute.
    fn unobserved(&mut self, plan: &'a Plan) -> EvalResult<'a> {
        match plan {
            Plan::Attribute(attribute) => self.attribute(attribute),
            plan => self.plan(plan),
        }
    }

    fn qualify(&mut self, mut value: Val<'a>, attribute: &'a Attribute) -> EvalResult<'a> {
        let mut optional = false;
        if let Val::Optional(inner) = value {
            match inner {
                Some(inner) => value = (*inner).clone(),
                None if attribute.test => return Ok(Val::Bool(false)),
                None => return Ok(Val::Optional(None)),
            }
            optional = true;
        }
        let last = attribute.path.len() - 1;
        for (i, qualifier) in attribute.path.iter().enumerate() {
            optional |= qualifier.optional;
            let test = attribute.test && i == last;
            let found = self.member(&value, qualifier, optional || test);
            match found {
                Ok(Some(found)) => {
                    self.meter.charge(cost::SELECT)?;
                    value = if test { Val::Bool(true) } else { found };
                }
                Ok(None) if attribute.test => {
                    if !optional {
                        self.meter.charge(cost::SELECT)?;
                    }
                    return Ok(Val::Bool(false));
                }
                Ok(None) => return Ok(Val::Optional(None)),
                Err(error) => {
                    self.meter.charge(cost::SELECT)?;
                    return Err(error);
                }
            }
        }
        if optional && !attribute.test { Ok(Val::some(value)) } else { Ok(value) }
    }

    /// Returns a member of a value; `None` only if it may be missing.
    fn member(&mut self, value: &Val<'a>, qualifier: &'a Qualifier, may_miss: bool) -> Result<Option<Val<'a>>, Error> {
        let dynamic;
        let key: &Val<'a> = match &qualifier.key {
            QualifierKey::Name(name) => {
                if let Val::Map(map) = value {
                    self.meter.work(name.len() as u64 / 4)?;
                    return match map.find_name(name)? {
                        None if !may_miss => Err(Error::new(format!("no such key: {name}"))),
                        found => Ok(found),
                    };
                }
                dynamic = Val::from(name.as_str());
                &dynamic
            }
            QualifierKey::Const(value) => value,
            QualifierKey::Dynamic(plan) => {
                dynamic = self.unobserved(plan)?;
                let kind = match (&dynamic, plan) {
                    // A member of an object, which is not converted to a CEL value yet.
                    (Val::Null, Plan::Attribute(_)) => Some("<nil>"),
                    (value, _) => value.not_a_qualifier(),
                };
                if let Some(kind) = kind {
                    return Err(Error::new(format!("invalid qualifier type: {kind}")));
                }
                &dynamic
            }
        };
        self.meter.key(key)?;
        match value {
            Val::Map(map) => match map.find(key)? {
                None if !may_miss => Err(Error::new(format!("no such key: {key}"))),
                found => Ok(found),
            },
            Val::List(list) => {
                let index = index(key)?;
                match usize::try_from(index).ok().filter(|i| *i < list.len()) {
                    Some(i) => {
                        self.meter.work(list.height())?;
                        list.get(i).map(Some)
                    }
                    None if may_miss => Ok(None),
                    None => Err(Error::new(format!("index out of bounds: {key}"))),
                }
            }
            Val::Message(message) => {
                let Val::Str(name) = key else { return Err(Error::no_such_overload()) };
                match message.fields.iter().find(|(known, _)| **known == **name) {
                    Some((_, value)) => Ok(Some(value.clone())),
                    None if may_miss => Ok(None),
                    None => Err(Error::new(format!("no such key: {key}"))),
                }
            }
            _ if may_miss => Ok(None),
            _ => Err(Error::new(format!("no such key: {key}"))),
        }
    }

    // === Calls ===

    fn call(&mut self, call: &'a CallPlan) -> EvalResult<'a> {
        match &call.args[..] {
            [] => self.apply(call, &[]),
            [a] => {
                let a = split_aborts(self.plan(a))?;
                self.strict(call, [a])
            }
            [a, b] => {
                let a = split_aborts(self.plan(a))?;
                let b = split_aborts(self.plan(b))?;
                self.strict(call, [a, b])
            }
            args => {
                let values = args.iter().map(|arg| self.plan(arg)).collect::<Result<Vec<_>, _>>()?;
                self.apply(call, &values)
            }
        }
    }

    fn strict<const N: usize>(&mut self, call: &'a CallPlan, args: [EvalResult<'a>; N]) -> EvalResult<'a> {
        let mut values = [const { Val::Null }; N];
        for (value, arg) in values.iter_mut().zip(args) {
            match arg {
                Ok(arg) => *value = arg,
                Err(error) => {
                    self.meter.charge(1)?;
                    return Err(error);
                }
            }
        }
        self.apply(call, &values)
    }

    fn apply(&mut self, call: &'a CallPlan, args: &[Val<'a>]) -> EvalResult<'a> {
        // Functions read their string arguments once; those that do more charge the rest themselves.
        self.meter.work(1 + args.iter().map(Val::bytes).sum::<usize>() as u64 / 4)?;
        let result = match args {
            [Val::Str(_), ..] => split_aborts(call.function.call(call.overload, self.meter, args))?,
            _ if call.has_constant_pattern => Err(Error::no_such_overload()),
            _ => split_aborts(call.function.call(call.overload, self.meter, args))?,
        };
        let cost = match call.cost {
            cost::ActualCost::Fixed(cost) => cost,
            cost::ActualCost::Of(cost) => cost(args, result.as_ref().ok()),
            cost::ActualCost::Traversal => args.first().map_or(Ok(0), |value| cost::traversal(self.meter, value))?,
        };
        self.meter.charge(cost)?;
        let result = check_depth(result?)?;
        binnacle_work::allocate(result.bytes())?;
        Ok(result)
    }

    // === Literals ===

    fn list(&mut self, list: &'a ListPlan) -> EvalResult<'a> {
        self.meter.list(list.elements.len())?;
        let mut values = Vec::with_capacity(list.elements.len());
        for (i, element) in list.elements.iter().enumerate() {
            let value = self.plan(element)?;
            if list.optional.binary_search(&i).is_err() {
                values.push(value);
                continue;
            }
            match value {
                Val::Optional(None) => {}
                Val::Optional(Some(value)) => values.push((*value).clone()),
                value => {
                    let text = format!("cannot initialize optional list element from non-optional value {value}");
                    return Err(Error::new(text));
                }
            }
        }
        check_depth(Val::list(values))
    }

    fn map(&mut self, planned: &'a [(Plan, Plan, bool)]) -> EvalResult<'a> {
        let mut entries = Entries::default();
        for (key, value, optional) in planned {
            let key = self.plan(key)?;
            let value = self.plan(value)?;
            self.meter.entry(&key)?;
            match present(value, *optional, &key)? {
                Some(value) => entries.insert(key, value)?,
                None => {
                    self.meter.work(planned.len() as u64)?;
                    entries.remove(&key);
                }
            }
        }
        check_depth(Val::Map(Map::Entries(Arc::new(entries))))
    }

    /// Adds an entry, or all entries of a map, to the map in a slot.
    fn insert(&mut self, slot: usize, entry: &'a [Plan]) -> EvalResult<'a> {
        // The costs of reading the accumulator and of the call.
        self.meter.charge(cost::SELECT)?;
        if let Err(error) = &self.slots[slot] {
            return Err(error.clone());
        }
        let mut values = Vec::with_capacity(entry.len());
        for plan in entry {
            match split_aborts(self.plan(plan))? {
                Ok(value) => values.push(value),
                Err(error) => {
                    self.meter.charge(u64::from(entry.len() == 1))?;
                    return Err(error);
                }
            }
        }
        let inserted = match (std::mem::replace(&mut self.slots[slot], Ok(Val::Null))?, &values[..]) {
            (Val::Map(map), [key, value]) => map.inserted(self.meter, key.clone(), value.clone()),
            (Val::Map(map), [Val::Map(more)]) => map.with_all(self.meter, more),
            _ => Err(Error::no_such_overload()),
        };
        let inserted = split_aborts(inserted)?;
        self.meter.charge(1)?;
        check_depth(Val::Map(inserted?))
    }

    fn message(&mut self, message: &'a MessagePlan) -> EvalResult<'a> {
        self.meter.list(2 * message.fields.len())?;
        let mut fields = Vec::with_capacity(message.fields.len());
        for (name, value, optional) in &message.fields {
            let value = self.plan(value)?;
            if let Some(value) = present(value, *optional, &Val::from(name.as_str()))? {
                fields.push((name.clone(), value));
            }
        }
        check_depth(Val::Message(Arc::new(Message::new(message.name.clone(), fields))))
    }

    // === Loops ===

    fn fold(&mut self, fold: &'a Fold) -> EvalResult<'a> {
        let range = self.plan(&fold.range)?;
        if fold.init_used {
            self.slots[fold.accumulator] = split_aborts(self.plan(&fold.init))?;
        }
        match &range {
            Val::List(list) => {
                for i in 0..list.len() {
                    self.meter.work(list.height())?;
                    let item = list.get(i)?;
                    match fold.variable2 {
                        Some(second) => {
                            self.slots[fold.variable] = Ok(Val::Int(i as i64));
                            self.slots[second] = Ok(item);
                        }
                        None => self.slots[fold.variable] = Ok(item),
                    }
                    if !self.round(fold)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for key in map.keys_charged(self.meter)? {
                    if let Some(second) = fold.variable2 {
                        self.meter.key(&key)?;
                        self.slots[second] = Ok(map.find(&key)?.unwrap_or(Val::Null));
                    }
                    self.slots[fold.variable] = Ok(key);
                    if !self.round(fold)? {
                        break;
                    }
                }
            }
            range => {
                let ty = range.go_type();
                return Err(Error::new(match fold.variable2 {
                    Some(_) => format!("unsupported comprehension range type: {ty}"),
                    None => format!("got '{ty}', expected iterable type"),
                }));
            }
        }
        self.plan(&fold.result)
    }

    /// Runs one iteration of a loop. Returns false to end the loop.
    fn round(&mut self, fold: &'a Fold) -> Result<bool, Error> {
        if let Ok(Val::Bool(false)) = split_aborts(self.plan(&fold.condition))? {
            return Ok(false);
        }
        self.slots[fold.accumulator] = split_aborts(self.plan(&fold.step))?;
        Ok(true)
    }
}

/// Fails for a value that is nested too deeply for the stack.
fn check_depth(value: Val<'_>) -> Result<Val<'_>, Error> {
    if value.depth() > MAX_DEPTH {
        return Err(Error::new("the value is nested too deeply"));
    }
    Ok(value)
}

/// Separates errors that an operator may absorb from those that abort the evaluation.
fn split_aborts<T>(result: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match result {
        Err(error) if error.is_cost_limit() => Err(error),
        result => Ok(result),
    }
}

/// Returns the value of an entry or field, `None` if it is optional and absent.
fn present<'a>(value: Val<'a>, optional: bool, name: &Val<'a>) -> Result<Option<Val<'a>>, Error> {
    match value {
        value if !optional => Ok(Some(value)),
        Val::Optional(value) => Ok(value.map(|value| (*value).clone())),
        value => {
            let text = format!("cannot initialize optional entry '{name}' from non-optional value {value}");
            Err(Error::new(text))
        }
    }
}

fn index(key: &Val<'_>) -> Result<i64, Error> {
    match key {
        Val::Int(n) => Ok(*n),
        Val::Uint(n) => i64::try_from(*n).map_err(|_| Error::new(format!("unsupported index value {n} in list"))),
        Val::Double(n) if n.fract() == 0.0 && n.abs() < 9e18 => Ok(*n as i64),
        Val::Double(_) => Err(Error::new(format!("unsupported index value {key} in list"))),
        key => Err(Error::new(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}
