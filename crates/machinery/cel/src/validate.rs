//! Checks of literals that would only fail at run time (durations, times, regular expressions), and of the element
//! types in lists and maps, which must be the same.

mod format;

use std::collections::HashSet;

use crate::ast::{Call, Expr, ExprKind, Id, List, Literal, MapEntry};
use crate::check::CheckedAst;
use crate::regexp;
use crate::source::{Issues, Source};
use crate::types::Type;
use crate::value::{Timestamp, parse_go_duration};

pub(crate) fn literals(checked: &CheckedAst, source: &Source, issues: &mut Issues) {
    let mut add = |id: Id, message: String| {
        issues.add(source.location(checked.positions[id as usize] as usize), message);
    };
    // The argument list of a format string can have elements of any type.
    let mut exempt = HashSet::new();
    checked.expr.visit(&mut |expr| match &expr.kind {
        ExprKind::Call(call) if call.function == "format" => {
            call.args.iter().for_each(|arg| {
                arg.visit(&mut |within| {
                    binnacle_work::pace(8);
                    exempt.insert(within.id);
                });
            });
            if let Some((id, message)) = format::problem(checked, expr.id, call) {
                add(id, message);
            }
        }
        ExprKind::Call(call) => {
            if let (Some(message), Some(arg)) = (problem(call), call.args.last()) {
                add(arg.id, message);
            }
        }
        ExprKind::List(_) | ExprKind::Map(_) if exempt.contains(&expr.id) => {}
        ExprKind::List(list) => list_of_one_type(checked, list, &mut add),
        ExprKind::Map(entries) => map_of_one_type(checked, entries, &mut add),
        _ => {}
    });
}

fn list_of_one_type(checked: &CheckedAst, list: &List, add: &mut impl FnMut(Id, String)) {
    let mut first = None;
    for (i, element) in list.elements.iter().enumerate() {
        let ty = element_type(checked, element, list.optional.binary_search(&i).is_ok());
        let first = first.get_or_insert_with(|| ty.clone());
        if *first != ty {
            add(element.id, mismatch(first, &ty));
            return;
        }
    }
}

fn map_of_one_type(checked: &CheckedAst, entries: &[MapEntry], add: &mut impl FnMut(Id, String)) {
    let mut first = None;
    for MapEntry { key, value, optional } in entries {
        let key_type = checked.ty(key.id).clone();
        let value_type = element_type(checked, value, *optional);
        let (keys, values) = first.get_or_insert_with(|| (key_type.clone(), value_type.clone()));
        if *keys != key_type {
            add(key.id, mismatch(keys, &key_type));
        }
        if *values != value_type {
            add(value.id, mismatch(values, &value_type));
        }
    }
}

fn element_type(checked: &CheckedAst, element: &Expr, optional: bool) -> Type {
    let ty = checked.ty(element.id);
    ty.as_optional().filter(|_| optional).unwrap_or(ty).clone()
}

fn mismatch(expected: &Type, found: &Type) -> String {
    format!("expected type '{}' but found '{}'", expected.formatted(), found.formatted())
}

fn problem(call: &Call) -> Option<String> {
    if let ("timestamp", [Expr { kind: ExprKind::Literal(Literal::Int(seconds)), .. }]) =
        (&*call.function, &call.args[..])
    {
        return Timestamp::new(*seconds, 0).is_err().then(|| "invalid timestamp argument".to_owned());
    }
    let literal = call.args.last()?.as_string_literal()?;
    match (&*call.function, call.args.len(), &call.target) {
        ("duration", 1, None) => parse_go_duration(literal).is_none().then(|| "invalid duration argument".to_owned()),
        ("timestamp", 1, None) => {
            let valid = Timestamp::parse(literal).is_some_and(|time| time.is_ok());
            (!valid).then(|| "invalid timestamp argument".to_owned())
        }
        ("matches", _, _) => regexp::check(literal).is_err().then(|| "invalid matches argument".to_owned()),
        _ => None,
    }
}
