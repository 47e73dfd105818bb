//! Macros: calls that are expanded to loops and tests before type checking.

use binnacle_meta::Text;

use super::{Features, ParseResult, Parser, call};
use crate::ast::{Call, Comprehension, Expr, ExprKind, Id, List, Literal, MapEntry, Select, operators};

pub(super) enum Expansion {
    Macro(Expr),
    /// Not a macro: returns the target and the arguments.
    Call(Option<Expr>, Vec<Expr>),
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// The variable of empty loops.
const UNUSED: &str = "#unused";

impl Parser<'_> {
    pub(super) fn expand(
        &mut self,
        id: Id,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> ParseResult<Expansion> {
        let Features { optionals, two_variables: two, lists, bind, no_macros } = self.features;
        if no_macros {
            return Ok(Expansion::Call(target, args));
        }
        // New nodes have the position of the call.
        let mut maker = ExprFactory { parser: self, at: id };
        let expr = match (function, target, args.len()) {
            ("has", None, 1) => maker.has(args)?,
            ("all", Some(target), 2) => maker.quantifier(Quantifier::All, target, args)?,
            ("exists", Some(target), 2) => maker.quantifier(Quantifier::Exists, target, args)?,
            ("exists_one" | "existsOne", Some(target), 2) => maker.quantifier(Quantifier::ExistsOne, target, args)?,
            ("all", Some(target), 3) if two => maker.quantifier(Quantifier::All, target, args)?,
            ("exists", Some(target), 3) if two => maker.quantifier(Quantifier::Exists, target, args)?,
            ("exists_one" | "existsOne", Some(target), 3) if two => {
                maker.quantifier(Quantifier::ExistsOne, target, args)?
            }
            ("map", Some(target), 2 | 3) => maker.map(target, args)?,
            ("filter", Some(target), 2) => maker.filter(target, args)?,
            ("transformList", Some(target), 3 | 4) if two => maker.transform(Transform::List, target, args)?,
            ("transformMap", Some(target), 3 | 4) if two => maker.transform(Transform::Map, target, args)?,
            ("transformMapEntry", Some(target), 3 | 4) if two => maker.transform(Transform::Entry, target, args)?,
            ("bind", Some(Expr { kind: ExprKind::Ident(namespace), .. }), 3) if bind && namespace == "cel" => {
                maker.bind(args)?
            }
            ("sortBy", Some(target), 2) if lists => maker.sort_by(target, args)?,
            ("optMap", Some(target), 2) if optionals => maker.opt_map(target, args, false)?,
            ("optFlatMap", Some(target), 2) if optionals => maker.opt_map(target, args, true)?,
            (_, target, _) => return Ok(Expansion::Call(target, args)),
        };
        Ok(Expansion::Macro(expr))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Transform {
    List,
    Map,
    Entry,
}

struct ExprFactory<'p, 'a> {
    parser: &'p mut Parser<'a>,
    at: Id,
}

impl ExprFactory<'_, '_> {
    fn has(&mut self, args: Vec<Expr>) -> ParseResult {
        let [arg] = exactly(args);
        match arg.kind {
            ExprKind::Select(select) => {
                let select = Select { test_only: true, ..*select };
                self.node(ExprKind::Select(Box::new(select)))
            }
            _ => self.error(arg.id, "invalid argument to has() macro"),
        }
    }

    fn quantifier(&mut self, quantifier: Quantifier, target: Expr, mut args: Vec<Expr>) -> ParseResult {
        let predicate = args.pop().expect("a quantifier has a variable and a predicate");
        let variables = match self.variables(&args, "argument must be a simple name") {
            Ok(variables) => variables,
            Err((id, message)) => return self.error(id, &message),
        };
        let (init, condition, step, result);
        match quantifier {
            Quantifier::All => {
                init = self.literal(Literal::Bool(true))?;
                let accumulator = self.accumulator()?;
                condition = self.call(operators::NOT_STRICTLY_FALSE, vec![accumulator])?;
                let accumulator = self.accumulator()?;
                step = self.call(operators::AND, vec![accumulator, predicate])?;
                result = self.accumulator()?;
            }
            Quantifier::Exists => {
                init = self.literal(Literal::Bool(false))?;
                let accumulator = self.accumulator()?;
                let not = self.call(operators::NOT, vec![accumulator])?;
                condition = self.call(operators::NOT_STRICTLY_FALSE, vec![not])?;
                let accumulator = self.accumulator()?;
                step = self.call(operators::OR, vec![accumulator, predicate])?;
                result = self.accumulator()?;
            }
            Quantifier::ExistsOne => {
                init = self.literal(Literal::Int(0))?;
                condition = self.literal(Literal::Bool(true))?;
                let accumulator = self.accumulator()?;
                let one = self.literal(Literal::Int(1))?;
                let more = self.call(operators::ADD, vec![accumulator, one])?;
                step = self.unless(predicate, more)?;
                let accumulator = self.accumulator()?;
                let one = self.literal(Literal::Int(1))?;
                result = self.call(operators::EQUALS, vec![accumulator, one])?;
            }
        }
        self.comprehension(target, variables, init, condition, step, result)
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> ParseResult {
        let transform = args.pop().expect("map has a variable and a transformation");
        let filter = if args.len() == 2 { args.pop() } else { None };
        let variables = match self.variables(&args, "argument is not an identifier") {
            Ok(variables) => variables,
            Err((id, message)) => return self.error(id, &message),
        };
        self.collect(target, variables, filter, transform)
    }

    fn filter(&mut self, target: Expr, args: Vec<Expr>) -> ParseResult {
        let [variable, predicate] = exactly(args);
        let variables = match self.variables(std::slice::from_ref(&variable), "argument is not an identifier") {
            Ok(variables) => variables,
            Err((id, message)) => return self.error(id, &message),
        };
        self.collect(target, variables, Some(predicate), variable)
    }

    fn transform(&mut self, kind: Transform, target: Expr, mut args: Vec<Expr>) -> ParseResult {
        let transform = args.pop().expect("a transformation has two variables and an expression");
        let filter = if args.len() == 3 { args.pop() } else { None };
        let variables = match self.variables(&args, "argument must be a simple name") {
            Ok(variables) => variables,
            Err((id, message)) => return self.error(id, &message),
        };
        if kind == Transform::List {
            return self.collect(target, variables, filter, transform);
        }
        let accumulator = self.accumulator()?;
        let mut insert = vec![accumulator];
        if kind == Transform::Map {
            insert.push(self.node(ExprKind::Ident(variables.0.clone()))?);
        }
        insert.push(transform);
        let step = self.call("cel.@mapInsert", insert)?;
        let step = match filter {
            Some(filter) => self.unless(filter, step)?,
            None => step,
        };
        let init = self.node(ExprKind::Map(Vec::new()))?;
        let condition = self.literal(Literal::Bool(true))?;
        let result = self.accumulator()?;
        self.comprehension(target, variables, init, condition, step, result)
    }

    /// `target.hasValue() ? optional.of(<variable bound to target.value() in expression>) : optional.none()`
    fn opt_map(&mut self, target: Expr, args: Vec<Expr>, flat: bool) -> ParseResult {
        let [variable, expression] = exactly(args);
        let ExprKind::Ident(name) = variable.kind else {
            let function = if flat { "optFlatMap" } else { "optMap" };
            return self.error(variable.id, &format!("{function}() variable name must be a simple identifier"));
        };
        let copy = self.copy(&target)?;
        let has_value = self.member_call("hasValue", target)?;
        let value = self.member_call("value", copy)?;
        let bound = self.bound(name, value, expression)?;
        let some = if flat { bound } else { self.call("optional.of", vec![bound])? };
        let none = self.call("optional.none", Vec::new())?;
        self.call(operators::CONDITIONAL, vec![has_value, some, none])
    }

    fn bind(&mut self, args: Vec<Expr>) -> ParseResult {
        let [variable, value, expression] = exactly(args);
        match variable.kind {
            ExprKind::Ident(name) => self.bound(name, value, expression),
            _ => self.error(variable.id, "cel.bind() variable names must be simple identifiers"),
        }
    }

    /// Returns the expression with a name bound to a value: an empty loop.
    fn bound(&mut self, name: Text, value: Expr, expression: Expr) -> ParseResult {
        let range = self.list(Vec::new())?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.node(ExprKind::Ident(name.clone()))?;
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            variable2: None,
            accumulator: name,
            init: value,
            condition,
            step,
            result: expression,
        })))
    }

    /// Returns the list sorted by the values of an expression for its elements, which are computed first.
    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> ParseResult {
        let input = Text::new_static("@__sortBy_input__");
        if !matches!(
            target.kind,
            ExprKind::List(_)
                | ExprKind::Select(_)
                | ExprKind::Ident(_)
                | ExprKind::Comprehension(_)
                | ExprKind::Call(_)
        ) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.error(target.id, message);
        }
        let list = self.node(ExprKind::Ident(input.clone()))?;
        let keys = self.map(list, args)?;
        let list = self.node(ExprKind::Ident(input.clone()))?;
        let sorted = self.node(ExprKind::Call(Box::new(Call {
            function: "@sortByAssociatedKeys".into(),
            target: Some(list),
            args: vec![keys],
        })))?;
        self.bound(input, target, sorted)
    }

    /// Returns a loop that appends `element` for each round that passes the filter.
    fn collect(&mut self, target: Expr, variables: Variables, filter: Option<Expr>, element: Expr) -> ParseResult {
        let init = self.list(Vec::new())?;
        let condition = self.literal(Literal::Bool(true))?;
        let accumulator = self.accumulator()?;
        let element = self.list(vec![element])?;
        let step = self.call(operators::ADD, vec![accumulator, element])?;
        let step = match filter {
            Some(filter) => self.unless(filter, step)?,
            None => step,
        };
        let result = self.accumulator()?;
        self.comprehension(target, variables, init, condition, step, result)
    }

    /// Returns the one or two names before the predicate.
    fn variables(&self, args: &[Expr], not_a_name: &str) -> Result<Variables, (Id, String)> {
        let mut names = Vec::new();
        for arg in args {
            let ExprKind::Ident(name) = &arg.kind else {
                return Err((arg.id, not_a_name.to_owned()));
            };
            names.push(name.clone());
        }
        if names.len() == 2 && names[0] == names[1] {
            return Err((args[1].id, format!("duplicate variable name: {}", names[0])));
        }
        if let Some(i) = names.iter().position(|name| name == operators::ACCUMULATOR || name == "__result__") {
            return Err((args[i].id, "iteration variable overwrites accumulator variable".to_owned()));
        }
        let second = if names.len() == 2 { names.pop() } else { None };
        Ok((names.pop().expect("there is a name for each argument"), second))
    }

    fn comprehension(
        &mut self,
        range: Expr,
        (variable, variable2): Variables,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> ParseResult {
        let accumulator = operators::ACCUMULATOR.into();
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable,
            variable2,
            accumulator,
            init,
            condition,
            step,
            result,
        })))
    }

    /// `condition ? step : accumulator`
    fn unless(&mut self, condition: Expr, step: Expr) -> ParseResult {
        let accumulator = self.accumulator()?;
        self.call(operators::CONDITIONAL, vec![condition, step, accumulator])
    }

    fn accumulator(&mut self) -> ParseResult {
        self.node(ExprKind::Ident(operators::ACCUMULATOR.into()))
    }

    fn literal(&mut self, literal: Literal) -> ParseResult {
        self.node(ExprKind::Literal(literal))
    }

    fn list(&mut self, elements: Vec<Expr>) -> ParseResult {
        self.node(ExprKind::List(List { elements, optional: Vec::new() }))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> ParseResult {
        Ok(call(self.id()?, function, args))
    }

    fn member_call(&mut self, function: &str, target: Expr) -> ParseResult {
        self.node(ExprKind::Call(Box::new(Call { function: function.into(), target: Some(target), args: Vec::new() })))
    }

    fn node(&mut self, kind: ExprKind) -> ParseResult {
        Ok(Expr { id: self.id()?, kind })
    }

    fn id(&mut self) -> ParseResult<Id> {
        let offset = self.parser.positions[self.at as usize];
        self.parser.id_at(offset)
    }

    fn error(&mut self, at: Id, message: &str) -> ParseResult {
        let offset = self.parser.positions[at as usize];
        self.parser.issues.add(self.parser.source.location(offset as usize), message);
        self.node(ExprKind::Unspecified)
    }

    /// Returns the same expression with new nodes.
    fn copy(&mut self, expr: &Expr) -> ParseResult {
        let id = self.parser.id_at(self.parser.positions[expr.id as usize])?;
        let kind = match &expr.kind {
            ExprKind::Unspecified => ExprKind::Unspecified,
            ExprKind::Literal(literal) => ExprKind::Literal(literal.clone()),
            ExprKind::Ident(name) => ExprKind::Ident(name.clone()),
            ExprKind::Select(select) => ExprKind::Select(Box::new(Select {
                operand: self.copy(&select.operand)?,
                ..(**select).clone_shallow()
            })),
            ExprKind::Call(original) => {
                let target = original.target.as_ref().map(|target| self.copy(target)).transpose()?;
                let args = self.copies(&original.args)?;
                ExprKind::Call(Box::new(Call { function: original.function.clone(), target, args }))
            }
            ExprKind::List(list) => {
                ExprKind::List(List { elements: self.copies(&list.elements)?, optional: list.optional.clone() })
            }
            ExprKind::Map(entries) => {
                let mut copied = Vec::with_capacity(entries.len());
                for MapEntry { key, value, optional } in entries {
                    let (key, value) = (self.copy(key)?, self.copy(value)?);
                    copied.push(MapEntry { key, value, optional: *optional });
                }
                ExprKind::Map(copied)
            }
            ExprKind::Struct(original) => {
                let mut copied = original.clone();
                for (field, original) in copied.fields.iter_mut().zip(&original.fields) {
                    field.id = self.id()?;
                    field.value = self.copy(&original.value)?;
                }
                ExprKind::Struct(copied)
            }
            ExprKind::Comprehension(original) => {
                let Comprehension { range, init, condition, step, result, .. } = &**original;
                ExprKind::Comprehension(Box::new(Comprehension {
                    range: self.copy(range)?,
                    variable: original.variable.clone(),
                    variable2: original.variable2.clone(),
                    accumulator: original.accumulator.clone(),
                    init: self.copy(init)?,
                    condition: self.copy(condition)?,
                    step: self.copy(step)?,
                    result: self.copy(result)?,
                }))
            }
        };
        Ok(Expr { id, kind })
    }

    fn copies(&mut self, exprs: &[Expr]) -> ParseResult<Vec<Expr>> {
        exprs.iter().map(|expr| self.copy(expr)).collect()
    }
}

type Variables = (Text, Option<Text>);

impl Select {
    /// Clones everything except the operand.
    fn clone_shallow(&self) -> Self {
        let operand = Expr { id: self.operand.id, kind: ExprKind::Unspecified };
        Self { operand, field: self.field.clone(), test_only: self.test_only }
    }
}

fn exactly<const N: usize>(args: Vec<Expr>) -> [Expr; N] {
    args.try_into().unwrap_or_else(|_| unreachable!("the number of arguments was matched"))
}
