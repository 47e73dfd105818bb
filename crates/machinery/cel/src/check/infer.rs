//! Type inference: assignability, and substitution of type parameters.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::Text;

use crate::types::Type;

/// The types substituted for type parameters. A failed attempt is undone.
#[derive(Debug)]
pub(crate) struct Mapping {
    substitutions: HashMap<Text, Type>,
    /// The previous values of changed entries, to undo them.
    journal: Vec<(Text, Option<Type>)>,
    /// The number of type parts that may still be visited. Types share parts, so a short expression can have types that
    /// take exponential time to walk.
    steps: Cell<usize>,
}

const MAX_STEPS: usize = 10_000_000;
/// The limit on the size of a type.
pub(crate) const MAX_TYPE_SIZE: usize = 1_000;

impl Default for Mapping {
    fn default() -> Self {
        Self { substitutions: HashMap::new(), journal: Vec::new(), steps: Cell::new(MAX_STEPS) }
    }
}

impl Mapping {
    /// Returns true if the types were too large to resolve; the results are then invalid.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    fn step(&self) -> bool {
        let left = if binnacle_work::charge(1).is_ok() { self.steps.get().saturating_sub(1) } else { 0 };
        self.steps.set(left);
        left > 0
    }

    /// Returns true if each type in `from` is assignable to the type at the same index in `to`.
    pub(crate) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        let assignable = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.try_assign(from, to));
        self.commit_if(assignable)
    }

    pub(crate) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let assignable = self.try_assign(from, to);
        self.commit_if(assignable)
    }

    fn commit_if(&mut self, keep: bool) -> bool {
        while let Some((name, before)) = self.journal.pop() {
            if keep {
                self.journal.clear();
                break;
            }
            match before {
                Some(ty) => self.substitutions.insert(name, ty),
                None => self.substitutions.remove(&name),
            };
        }
        keep
    }

    fn bind(&mut self, name: &Text, ty: &Type) {
        let before = self.substitutions.insert(name.clone(), ty.clone());
        self.journal.push((name.clone(), before));
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Param(name) => self.substitutions.get(name),
            _ => None,
        }
    }

    fn try_assign(&mut self, a: &Type, b: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if let Type::Param(name) = b {
            match self.substitution(a, name, b) {
                Substitution::Valid => return true,
                Substitution::Conflict => return false,
                Substitution::Impossible => {}
            }
        }
        if let Type::Param(name) = a {
            return matches!(self.substitution(b, name, a), Substitution::Valid);
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        let nullable = |ty: &Type| {
            matches!(ty, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
        };
        if *a == Type::Null {
            return nullable(b);
        }
        if *b == Type::Null {
            return nullable(a);
        }
        match (a, b) {
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.try_assign(a, b),
            (Type::Map(a), Type::Map(b)) => self.try_assign(&a.0, &b.0) && self.try_assign(&a.1, &b.1),
            (Type::Opaque(a, a_params), Type::Opaque(b, b_params)) => {
                a == b
                    && a_params.len() == b_params.len()
                    && a_params.iter().zip(b_params.iter()).all(|(a, b)| self.try_assign(a, b))
            }
            (a, b) => a == b,
        }
    }

    /// Tries to substitute the type for the parameter.
    fn substitution(&mut self, ty: &Type, name: &Text, param: &Type) -> Substitution {
        if ty == param {
            return Substitution::Valid;
        }
        if let Some(previous) = self.substitutions.get(name).cloned() {
            if *ty == previous {
                return Substitution::Valid;
            }
            if !self.try_assign(ty, &previous) {
                return Substitution::Conflict;
            }
            let general = most_general(ty, &previous);
            if self.not_referenced_in(param, general) {
                let general = general.clone();
                self.bind(name, &general);
            }
            return Substitution::Valid;
        }
        if self.not_referenced_in(param, ty) {
            self.bind(name, ty);
            return Substitution::Valid;
        }
        Substitution::Impossible
    }

    /// Returns true if the parameter does not occur in the type.
    fn not_referenced_in(&self, param: &Type, ty: &Type) -> bool {
        if param == ty || !self.step() {
            return false;
        }
        match ty {
            Type::Param(_) => self.find(ty).is_none_or(|bound| self.not_referenced_in(param, bound)),
            ty => ty.params().iter().all(|part| self.not_referenced_in(param, part)),
        }
    }

    /// Returns the type with all substitutions; unresolved parameters become dyn if `to_dyn`.
    pub(crate) fn substitute(&self, ty: &Type, to_dyn: bool) -> Type {
        let mut size = MAX_TYPE_SIZE;
        self.substitute_within(ty, to_dyn, &mut size)
    }

    fn substitute_within(&self, ty: &Type, to_dyn: bool, size: &mut usize) -> Type {
        *size = size.saturating_sub(1);
        if *size == 0 {
            self.steps.set(0);
        }
        if !self.step() {
            return Type::Error;
        }
        let mut part = |ty: &Type| self.substitute_within(ty, to_dyn, size);
        match ty {
            Type::Param(_) => match self.find(ty) {
                Some(bound) => part(bound),
                None if to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::list(part(element)),
            Type::Map(entry) => Type::map(part(&entry.0), part(&entry.1)),
            Type::Opaque(_, params) if params.is_empty() => ty.clone(),
            Type::Opaque(name, params) => Type::Opaque(name.clone(), params.iter().map(part).collect()),
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(part(of)))),
            ty => ty.clone(),
        }
    }
}

enum Substitution {
    Valid,
    /// The parameter has another substitution.
    Conflict,
    /// The parameter occurs in the type.
    Impossible,
}

pub(crate) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if equal_or_less_specific(a, b) { a } else { b }
}

fn equal_or_less_specific(a: &Type, b: &Type) -> bool {
    let open = |ty: &Type| ty.is_dyn() || matches!(ty, Type::Param(_));
    if open(a) {
        return true;
    }
    if open(b) {
        return false;
    }
    match (a, b) {
        (Type::Opaque(a, a_params), Type::Opaque(b, b_params)) => {
            a == b
                && a_params.len() == b_params.len()
                && a_params.iter().zip(b_params.iter()).all(|(a, b)| equal_or_less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => equal_or_less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => equal_or_less_specific(&a.0, &b.0) && equal_or_less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
