//! Checks of format strings with literal arguments.

use crate::ast::{Call, Expr, ExprKind, Id, Literal};
use crate::check::Checked;
use crate::library::{FormatStep, format_steps};
use crate::types::Type;

/// Returns the first error of `"...".format([...])`, and its node.
pub(super) fn problem(checked: &Checked, id: Id, call: &Call) -> Option<(Id, String)> {
    let Some(Expr { kind: ExprKind::Literal(Literal::String(pattern)), .. }) = &call.target else { return None };
    let [Expr { kind: ExprKind::List(list), .. }] = &call.args[..] else { return None };
    let args = &list.elements;
    let mut used = 0;
    for step in format_steps(pattern) {
        match step {
            Ok(FormatStep::Text(_)) => {}
            Ok(FormatStep::Clause { letter, .. }) => {
                let Some(arg) = args.get(used) else { return Some((id, format!("index {used} out of range"))) };
                used += 1;
                if let Err((at, detail)) = fits(checked, letter, arg) {
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

fn fits(checked: &Checked, letter: char, arg: &Expr) -> Result<(), (Id, String)> {
    let ty = checked.ty(arg.id);
    let fits = match letter {
        's' => return shows(checked, arg),
        'd' | 'o' => matches!(ty, Type::Int | Type::Uint),
        'f' | 'e' => matches!(ty, Type::Double | Type::String),
        'b' => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        _ => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    };
    if fits || *ty == Type::Dyn {
        return Ok(());
    }
    Err((arg.id, format!("{}, was given {}", crate::library::format_use(letter), ty.name())))
}

/// Checks that a value can be formatted as text, with all its elements.
fn shows(checked: &Checked, arg: &Expr) -> Result<(), (Id, String)> {
    let ty = checked.ty(arg.id);
    let shown = matches!(
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
    if !shown {
        return Err((arg.id, format!("{}, was given {}", crate::library::format_use('s'), ty.name())));
    }
    stacker::maybe_grow(32 * 1024, 1024 * 1024, || match &arg.kind {
        ExprKind::List(list) => list.elements.iter().try_for_each(|element| shows(checked, element)),
        ExprKind::Map(entries) => entries.iter().try_for_each(|entry| {
            shows(checked, &entry.key)?;
            shows(checked, &entry.value)
        }),
        _ => Ok(()),
    })
}
