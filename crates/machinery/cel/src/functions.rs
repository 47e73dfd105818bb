//! Functions: overloads for the checker, implementations for the evaluator.

use binnacle_meta::Text;

use crate::error::Error;
use crate::meter::Meter;
use crate::types::{Type, parse_type, parse_types};
use crate::value::Val;

/// The implementation of a function; the target of a member call is the first argument.
pub(crate) type FunctionOp = for<'a> fn(&Meter, &[Val<'a>]) -> Result<Val<'a>, Error>;

/// A function in the declaration of a library.
pub(crate) struct FunctionDecl {
    pub(crate) name: &'static str,
    /// One implementation for all overloads, which dispatches on the types itself (cel-go's singleton binding).
    pub(crate) all: Option<FunctionOp>,
    pub(crate) overloads: &'static [OverloadDecl],
}

/// An identifier, a signature (`string.(int, A) -> bool` for a member, `(string) -> bool` for a function), and the
/// implementation if the overload has its own.
pub(crate) type OverloadDecl = (&'static str, &'static str, Option<FunctionOp>);

impl FunctionDecl {
    pub(crate) const fn all(name: &'static str, imp: FunctionOp, overloads: &'static [OverloadDecl]) -> Self {
        Self { name, all: Some(imp), overloads }
    }

    pub(crate) const fn each(name: &'static str, overloads: &'static [OverloadDecl]) -> Self {
        Self { name, all: None, overloads }
    }
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) all: Option<FunctionOp>,
}

#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// The type parameters of the signature.
    pub(crate) params: Vec<Text>,
    imp: Option<FunctionOp>,
}

impl Overload {
    pub(crate) fn parse(&(id, signature, imp): &OverloadDecl) -> Self {
        let (args, result) = signature.split_once("->").expect("signatures have a result");
        let args = args.trim().strip_suffix(')').expect("signatures have arguments");
        // The target, if any, precedes the first `.(`; type names contain dots as well.
        let (target, args) = match args.rsplit_once(".(") {
            Some((target, rest)) => (Some(target), rest),
            None => (None, args.strip_prefix('(').expect("arguments stand in parentheses")),
        };
        let args: Vec<Type> = target.map(parse_type).into_iter().chain(parse_types(args)).collect();
        let mut params = Vec::new();
        args.iter().for_each(|arg| collect_params(arg, &mut params));
        let result = parse_type(result);
        collect_params(&result, &mut params);
        Self { id, member: target.is_some(), args, result, params, imp }
    }

    fn accepts(&self, args: &[Val<'_>]) -> bool {
        self.args.len() == args.len() && self.args.iter().zip(args).all(|(ty, arg)| accepts(ty, arg))
    }
}

fn collect_params(ty: &Type, params: &mut Vec<Text>) {
    match ty {
        Type::Param(name) if !params.contains(name) => params.push(name.clone()),
        ty => ty.params().into_iter().for_each(|part| collect_params(part, params)),
    }
}

/// Returns true if a value has the declared type; only the first element of lists and maps is checked.
fn accepts(ty: &Type, value: &Val<'_>) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Any | Type::Param(_), _) => true,
        (Type::List(element), Val::List(list)) => {
            list.is_empty() || list.get(0).is_ok_and(|first| accepts(element, &first))
        }
        (Type::Map(entry), Val::Map(map)) => map.first_key().is_none_or(|key| {
            accepts(&entry.0, &key)
                && map.find(&key).is_ok_and(|value| value.is_none_or(|value| accepts(&entry.1, &value)))
        }),
        (ty, value) => ty.name() == value.ty().name(),
    }
}

impl Function {
    /// Calls the function; `overload` is the only one that matches, according to the checker.
    pub(crate) fn call<'a>(&self, overload: Option<usize>, meter: &Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
        if let Some(imp) = self.all {
            return imp(meter, args);
        }
        let found = match overload {
            Some(index) => Some(&self.overloads[index]).filter(|overload| overload.accepts(args)),
            None => self.overloads.iter().find(|overload| overload.imp.is_some() && overload.accepts(args)),
        };
        match found.and_then(|overload| overload.imp) {
            Some(imp) => imp(meter, args),
            None => Err(self.no_such_overload(args)),
        }
    }

    fn no_such_overload(&self, args: &[Val<'_>]) -> Error {
        let types: Vec<Text> = args.iter().map(Val::type_name).collect();
        Error::new(format!("no such overload: {}({})", self.name, types.join(", ")))
    }
}
