//! Checks of format strings with literal arguments.

use crate::ast::{Call, Expr, ExprKind, Id, Literal};
use crate::check::CheckedAst;
use crate::library::{FormatPart, format_parts};
use crate::types::Type;

/// Returns the first error of `"...".format([...])`, and its node.
pub(super) fn problem(checked: &CheckedAst, id: Id, call: &Call) -> Option<(Id, String)> {
    let Some(Expr { kind: ExprKind::Literal(Literal::String(pattern)), .. }) = &call.target else { return None };
    let [Expr { kind: ExprKind::List(list), .. }] = &call.args[..] else { return None };
    let args = &list.elements;
    let mut used = 0;
    for step in format_parts(pattern) {
        match step {
            Ok(FormatPart::Text(_)) => {}
            Ok(FormatPart::Clause { letter, .. }) => {
                let Some(arg) = args.get(used) else { return Some((id, format!("index {used} out of range"))) };
                used += 1;
                if let Err((at, detail)) = check_clause(checked, letter, arg) {
                    return Some((at, format!("error during formatting: {detail}")));
                }
            }
            Err(detail) => return Some((id, detail)),
        }
    }
    (args.len() > used).then(|| {
        let given = args.len();
        (id, format!("too many arguments supplied to string.format (expected {used}, got {given})"))
    })
}

fn check_clause(checked: &CheckedAst, letter: char, arg: &Expr) -> Result<(), (Id, String)> {
    let ty = checked.ty(arg.id);
    let check_clause = match letter {
        's' => return check_displayable(checked, arg),
        'd' | 'o' => matches!(ty, Type::Int | Type::Uint),
        'f' | 'e' => matches!(ty, Type::Double | Type::String),
        'b' => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        _ => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    };
    if check_clause || *ty == Type::Dyn {
        return Ok(());
    }
    Err((arg.id, format!("{}, was given {}", crate::library::accepted_types_message(letter), ty.name())))
}

/// Checks that a value can be formatted as text, with all its elements.
fn check_displayable(checked: &CheckedAst, arg: &Expr) -> Result<(), (Id, String)> {
    let ty = checked.ty(arg.id);
    let displayable = matches!(
        ty,
        Type::Dyn
            | Type::List(_)
            | Type::Map(_)
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Bool
            | Type::String
            | Type::Timestamp
            | Type::Bytes
            | Type::Duration
            | Type::Type(_)
            | Type::Null
    );
    if !displayable {
        return Err((arg.id, format!("{}, was given {}", crate::library::accepted_types_message('s'), ty.name())));
    }
    stacker::maybe_grow(32 * 1024, 1024 * 1024, || match &arg.kind {
        ExprKind::List(list) => list.elements.iter().try_for_each(|element| check_displayable(checked, element)),
        ExprKind::Map(entries) => entries.iter().try_for_each(|entry| {
            check_displayable(checked, &entry.key)?;
            check_displayable(checked, &entry.value)
        }),
        _ => Ok(()),
    })
}
