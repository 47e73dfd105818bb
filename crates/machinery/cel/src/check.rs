//! The type checker: resolves the type of every part of an expression, and the variable or function of every name.

mod infer;

use std::collections::HashMap;

use binnacle_meta::Text;

use self::infer::{Mapping, most_general};
use crate::ast::{Call, Comprehension, Expr, ExprKind, Id, List, Literal, MapEntry, Select, Struct, operators};
use crate::environment::Environment;
use crate::functions::Function;
use crate::source::{Issues, Location, Source};
use crate::types::{Type, signature};

/// The resolved meaning of a node.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable of the environment by its number, or one of a loop by its name.
    Variable(usize),
    Local(Text),
    /// The name of a type.
    TypeName(Type),
    /// A function and its matching overloads.
    Function(&'static Function, Vec<usize>),
}

/// An expression with the types and meanings of its nodes.
#[derive(Debug)]
pub(crate) struct CheckedAst {
    pub(crate) expr: Expr,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    pub(crate) positions: Vec<u32>,
}

impl CheckedAst {
    pub(crate) fn ty(&self, id: Id) -> &Type {
        self.types[id as usize].as_ref().unwrap_or(&Type::Dyn)
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.references.iter().flatten()
    }

    pub(crate) fn reference(&self, id: Id) -> Option<&Reference> {
        self.references[id as usize].as_ref()
    }
}

pub(crate) fn check(
    env: &Environment,
    source: &Source,
    expr: Expr,
    positions: Vec<u32>,
    issues: &mut Issues,
) -> Option<CheckedAst> {
    let mut checker = Checker {
        env,
        source,
        issues,
        types: vec![None; positions.len()],
        references: vec![None; positions.len()],
        positions: &positions,
        mapping: Mapping::default(),
        fresh: 0,
        scopes: Vec::new(),
    };
    checker.check(&expr);
    let Checker { mut types, references, mapping, .. } = checker;
    for ty in types.iter_mut().flatten() {
        *ty = mapping.substitute(ty, true);
    }
    if mapping.is_exhausted() {
        issues.add(Location::NONE, "the types of the expression are too large");
    }
    issues.is_empty().then_some(CheckedAst { expr, types, references, positions })
}

struct Checker<'a> {
    env: &'a Environment,
    source: &'a Source,
    issues: &'a mut Issues,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    positions: &'a [u32],
    mapping: Mapping,
    /// The number of type variables created so far.
    fresh: usize,
    /// The variables of the enclosing loops, innermost last.
    scopes: Vec<HashMap<Text, Type>>,
}

enum Ident {
    Variable(usize, Type),
    Local(Text, Type),
    TypeName(Type),
}

impl Ident {
    fn ty(&self) -> Type {
        match self {
            Self::Variable(_, ty) | Self::Local(_, ty) => ty.clone(),
            Self::TypeName(ty) => Type::Type(Some(ty.clone().into())),
        }
    }

    fn into_reference(self) -> Reference {
        match self {
            Self::Variable(index, _) => Reference::Variable(index),
            Self::Local(name, _) => Reference::Local(name),
            Self::TypeName(ty) => Reference::TypeName(ty),
        }
    }
}

impl Checker<'_> {
    fn check(&mut self, expr: &Expr) {
        let id = expr.id;
        let ty = match &expr.kind {
            ExprKind::Unspecified => Type::Error,
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => self.ident(id, name),
            ExprKind::Select(select) => stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.select(expr, select)),
            ExprKind::Call(call) => match stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.call(id, call)) {
                Some(ty) => ty,
                None => Type::Error,
            },
            ExprKind::List(list) => stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.list(list)),
            ExprKind::Map(entries) => stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.map(entries)),
            ExprKind::Struct(message) => stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.message(id, message)),
            ExprKind::Comprehension(fold) => stacker::maybe_grow(32 * 1024, 1024 * 1024, || self.comprehension(fold)),
        };
        let ty = if ty.size(infer::MAX_TYPE_SIZE) >= infer::MAX_TYPE_SIZE {
            self.error(id, "the type of the expression is too large");
            Type::Error
        } else {
            ty
        };
        self.types[id as usize] = Some(ty);
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        match self.lookup(name) {
            Some(ident) => {
                let ty = ident.ty();
                self.references[id as usize] = Some(ident.into_reference());
                ty
            }
            None => {
                self.undeclared(id, name);
                Type::Error
            }
        }
    }

    /// Returns the meaning of a name; a leading dot selects the outermost one.
    fn lookup(&self, name: &str) -> Option<Ident> {
        // A leading dot does not hide the variables of loops.
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, ty)) = self.scopes.iter().rev().find_map(|scope| scope.get_key_value(name)) {
            return Some(Ident::Local(name.clone(), ty.clone()));
        }
        if let Some((index, ty)) = self.env.variable(name) {
            return Some(Ident::Variable(index, ty.clone()));
        }
        self.env.type_named(name).map(Ident::TypeName)
    }

    fn select(&mut self, expr: &Expr, select: &Select) -> Type {
        // A dotted name may be the name of a variable.
        if let Some(name) = expr.qualified_name()
            && let Some(ident) = self.lookup(&name)
        {
            let ty = ident.ty();
            self.references[expr.id as usize] = Some(ident.into_reference());
            return ty;
        }
        let ty = self.field(expr.id, &select.operand, &select.field, false);
        if select.test_only { Type::Bool } else { self.mapping.substitute(&ty, false) }
    }

    fn field(&mut self, id: Id, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.mapping.substitute(&self.ty(operand), false);
        let (target, was_optional) = match operand.as_optional() {
            Some(target) => (target.clone(), true),
            None => (operand, false),
        };
        let result = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.field_type(id, name, field).unwrap_or(Type::Error),
            // Declared as objects without known fields.
            Type::Opaque(name, _) if name.starts_with("kubernetes.") => {
                self.error(id, &format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Param(_) => {
                self.mapping.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            target if target.is_dyn_or_error() => Type::Dyn,
            target => {
                self.error(id, &format!("type '{}' does not support field selection", target.formatted()));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn field_type(&mut self, id: Id, object: &str, field: &str) -> Option<Type> {
        let Some(found) = self.env.field_of(object, field) else {
            self.error(id, &format!("unexpected failed resolution of '{object}'"));
            return None;
        };
        if found.is_none() {
            self.error(id, &format!("undefined field '{field}'"));
        }
        found
    }

    fn call(&mut self, id: Id, call: &Call) -> Option<Type> {
        if call.function == operators::OPT_SELECT {
            let [operand, field] = &call.args[..] else { unreachable!("the parser gives two arguments") };
            let field = field.as_string_literal().expect("the parser gives a literal").clone();
            let ty = self.field(id, operand, &field, true);
            return Some(self.mapping.substitute(&ty, false));
        }
        for arg in &call.args {
            self.check(arg);
        }
        let Some(target) = &call.target else {
            let function = self.function(id, call.function.trim_start_matches('.'))?;
            return self.resolve(id, function, None, &call.args);
        };
        // `a.b.c()` is the function of that name, or a member of `a.b`.
        if let Some(prefix) = target.qualified_name() {
            let name = format!("{}.{}", prefix.trim_start_matches('.'), call.function);
            if let Some(function) = self.env.function(&name) {
                return self.resolve(id, function, None, &call.args);
            }
        }
        self.check(target);
        let function = self.function(id, &call.function)?;
        self.resolve(id, function, Some(target), &call.args)
    }

    fn function(&mut self, id: Id, name: &str) -> Option<&'static Function> {
        let function = self.env.function(name);
        if function.is_none() {
            self.undeclared(id, name);
        }
        function
    }

    fn resolve(&mut self, id: Id, function: &'static Function, target: Option<&Expr>, args: &[Expr]) -> Option<Type> {
        let arg_types: Vec<Type> = target.into_iter().chain(args).map(|arg| self.ty(arg)).collect();
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.member != target.is_some() {
                continue;
            }
            if function.name == operators::AND || function.name == operators::OR {
                let mut fits = true;
                for (arg, ty) in args.iter().zip(&arg_types) {
                    if !self.mapping.assign(ty, &Type::Bool) {
                        self.mismatch(arg.id, &Type::Bool, ty);
                        fits = false;
                    }
                }
                if !fits {
                    return None;
                }
                self.references[id as usize] = Some(Reference::Function(function, vec![index]));
                return Some(Type::Bool);
            }
            if overload.args.len() != arg_types.len() {
                continue;
            }
            let (expected, returned) = self.instantiate(overload);
            if !self.mapping.assign_all(&arg_types, &expected) {
                continue;
            }
            fitting.push(index);
            let returned = self.mapping.substitute(&returned, false);
            match &result {
                None => result = Some(returned),
                Some(ty) if !ty.is_dyn() && *ty != returned => result = Some(Type::Dyn),
                Some(_) => {}
            }
        }
        if result.is_none() {
            let shown: Vec<Type> = arg_types.iter().map(|ty| self.mapping.substitute(ty, true)).collect();
            let signature = signature(&shown, target.is_some());
            self.error(id, &format!("found no matching overload for '{}' applied to '{signature}'", function.name));
            return None;
        }
        self.references[id as usize] = Some(Reference::Function(function, fitting));
        result
    }

    /// Returns the types of an overload with fresh type variables.
    fn instantiate(&mut self, overload: &crate::functions::Overload) -> (Vec<Type>, Type) {
        if overload.params.is_empty() {
            return (overload.args.clone(), overload.result.clone());
        }
        let mut fresh = Mapping::default();
        for param in &overload.params {
            let variable = self.variable();
            fresh.assign(&variable, &Type::Param(param.clone()));
        }
        let args = overload.args.iter().map(|arg| fresh.substitute(arg, false)).collect();
        (args, fresh.substitute(&overload.result, false))
    }

    fn list(&mut self, list: &List) -> Type {
        let mut joined = None;
        for (i, element) in list.elements.iter().enumerate() {
            self.check(element);
            let mut ty = self.ty(element);
            if list.optional.binary_search(&i).is_ok() {
                ty = self.unwrap_optional(element, ty);
            }
            joined = Some(self.join(joined, ty));
        }
        let element = joined.unwrap_or_else(|| self.variable());
        Type::list(element)
    }

    fn map(&mut self, entries: &[MapEntry]) -> Type {
        let mut joined = None;
        for MapEntry { key, value, optional } in entries {
            self.check(key);
            let (keys, values) = joined.unzip();
            let keys = self.join(keys, self.ty(key));
            self.check(value);
            let mut ty = self.ty(value);
            if *optional {
                ty = self.unwrap_optional(value, ty);
            }
            joined = Some((keys, self.join(values, ty)));
        }
        let (key, value) = joined.unwrap_or_else(|| (self.variable(), self.variable()));
        Type::map(key, value)
    }

    fn unwrap_optional(&mut self, expr: &Expr, ty: Type) -> Type {
        match ty.as_optional() {
            Some(inner) => inner.clone(),
            None => {
                if !ty.is_dyn() {
                    self.mismatch(expr.id, &Type::optional(ty.clone()), &ty);
                }
                ty
            }
        }
    }

    fn message(&mut self, id: Id, message: &Struct) -> Type {
        let Some(ident) = self.lookup(&message.name) else {
            self.undeclared(id, &message.name);
            return Type::Error;
        };
        let result = match &ident {
            Ident::TypeName(ty @ Type::Object(_)) => ty.clone(),
            Ident::TypeName(ty) => {
                self.error(id, &format!("'{ty}' is not a message type"));
                Type::Error
            }
            ident => {
                let ty = ident.ty();
                self.error(id, &format!("'{}' is not a type", ty.name()));
                Type::Error
            }
        };
        self.references[id as usize] = Some(ident.into_reference());
        for field in &message.fields {
            self.check(&field.value);
            let expected = match &result {
                Type::Object(name) if name == "JSONPatch" && self.env.field_of(name, &field.name) == Some(None) => {
                    // This type accepts every name, and has no type for undeclared ones.
                    let actual = self.ty(&field.value);
                    let text = format!(
                        "expected type of field '{}' is '' but provided type is '{}'",
                        field.name,
                        actual.formatted()
                    );
                    self.error(field.id, &text);
                    Type::Error
                }
                Type::Object(name) => self.field_type(field.id, name, &field.name).unwrap_or(Type::Error),
                _ => {
                    self.error(field.id, &format!("unexpected failed resolution of '{}'", message.name));
                    Type::Error
                }
            };
            let mut actual = self.ty(&field.value);
            if field.optional {
                actual = self.unwrap_optional(&field.value, actual);
            }
            if !self.mapping.assign(&expected, &actual) {
                let text = format!(
                    "expected type of field '{}' is '{}' but provided type is '{}'",
                    field.name,
                    expected.formatted(),
                    actual.formatted()
                );
                self.error(field.id, &text);
            }
        }
        result
    }

    fn comprehension(&mut self, fold: &Comprehension) -> Type {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.mapping.substitute(&self.ty(&fold.range), false);
        let accumulator = self.ty(&fold.init);
        let (first, second) = match &range {
            Type::List(element) if fold.variable2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Any | Type::Error | Type::Param(_) => {
                self.mapping.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            range => {
                let range = range.formatted();
                let text = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(fold.range.id, &text);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push(HashMap::from([(fold.accumulator.clone(), accumulator.clone())]));
        let mut variables = HashMap::from([(fold.variable.clone(), first)]);
        if let Some(variable) = &fold.variable2 {
            variables.insert(variable.clone(), second);
        }
        self.scopes.push(variables);
        self.check(&fold.condition);
        self.expect_type(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.expect_type(&fold.step, &accumulator);
        self.scopes.pop();
        self.check(&fold.result);
        self.scopes.pop();
        self.mapping.substitute(&self.ty(&fold.result), false)
    }

    fn expect_type(&mut self, expr: &Expr, expected: &Type) {
        let actual = self.ty(expr);
        if !self.mapping.assign(expected, &actual) {
            self.mismatch(expr.id, expected, &actual);
        }
    }

    /// Returns the common type of the elements so far and one more.
    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.mapping.assign(&before, &ty) {
            return most_general(&before, &ty).clone();
        }
        // A later check requires literals to have elements of one type.
        Type::Dyn
    }

    fn variable(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1).into())
    }

    fn ty(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone().unwrap_or(Type::Error)
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.error(id, &format!("expected type '{}' but found '{}'", expected.formatted(), found.formatted()));
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.error(id, &format!("undeclared reference to '{name}' (in container '')"));
    }

    fn error(&mut self, id: Id, message: &str) {
        self.issues.add(self.source.location(self.positions[id as usize] as usize), message);
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
