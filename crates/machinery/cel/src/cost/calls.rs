//! The estimated cost of calls, from the sizes of their arguments.

use binnacle_meta::Text;

use super::estimate::Estimate;
use super::variables::Variables;
use super::{LIST, MESSAGE, REGEX, STRING_TRAVERSAL};
use crate::ast::{Expr, ExprKind, Literal};
use crate::types::Type;

/// An argument.
pub(crate) struct AstNode<'a> {
    /// The path of the value in a variable, empty if it is not from a variable.
    pub(crate) path: Vec<Text>,
    pub(crate) ty: Type,
    pub(crate) expr: Option<&'a Expr>,
    pub(crate) size: Option<Estimate>,
}

impl AstNode<'_> {
    pub(crate) fn size(&self) -> Estimate {
        self.size.unwrap_or(Estimate::UNKNOWN)
    }

    fn as_int(&self) -> Option<i64> {
        match self.expr.map(|expr| &expr.kind) {
            Some(ExprKind::Literal(Literal::Int(n))) => Some(*n),
            _ => None,
        }
    }
}

type CallEstimate = (Estimate, Option<Estimate>);

const ONE: Estimate = Estimate::fixed(1);

/// The assumed size of the pattern of a named format.
const FORMAT_REGEX_SIZE: f64 = 128.0;

/// Returns the cost of a call without its arguments, and the size of the result.
pub(crate) fn estimate(
    variables: &Variables<'_>,
    function: &str,
    overload: &str,
    target: Option<&AstNode<'_>>,
    args: &[AstNode<'_>],
) -> CallEstimate {
    of_lists(overload, target, args)
        .or_else(|| of_library(variables, function, overload, target, args))
        .unwrap_or_else(|| of_language(overload, target, args))
}

/// Returns the cost of cel-go's functions on lists and sets.
fn of_lists(overload: &str, target: Option<&AstNode<'_>>, args: &[AstNode<'_>]) -> Option<CallEstimate> {
    let sets = |factor: f64| {
        let size = args[0].size().times(args[1].size());
        Some((size.scaled(factor).plus(ONE), None))
    };
    let allocated =
        |factor: f64, size: Estimate| Some((size.scaled(factor).plus(Estimate::fixed(1 + LIST)), Some(size)));
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => sets(1.0),
        "list_sets_equivalent_list" => sets(2.0),
        "list_slice" => {
            let start = args[0].as_int().map_or(0, |n| n.max(0) as u64);
            let end = args[1].as_int().map_or(target?.size().max, |n| n.max(0) as u64);
            allocated(1.0, Estimate::fixed(end.wrapping_sub(start)))
        }
        "lists_range" => allocated(1.0, Estimate::fixed(args[0].as_int().map_or(u64::MAX, |n| n.max(0) as u64))),
        "list_reverse" => allocated(1.0, target?.size()),
        "list_flatten" => allocated(1.0, target?.size()),
        "list_flatten_int" => {
            let depth = args[0].as_int().map_or(u64::MAX, |n| n.max(0) as u64);
            allocated(depth as f64, target?.size())
        }
        "list_distinct" => allocated(2.0, target?.size().times(target?.size())),
        overload if overload.starts_with("list_") && overload.ends_with("_sort") => {
            let size = target?.size();
            allocated(sort_factor(overload), size.times(size))
        }
        overload if overload.ends_with("_sortByAssociatedKeys") => {
            let size = args[0].size();
            allocated(sort_factor(overload), size.times(size))
        }
        _ => None,
    }
}

fn sort_factor(overload: &str) -> f64 {
    let texts = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
    if texts { 2.0 + STRING_TRAVERSAL } else { 2.0 }
}

/// Returns true for functions of libraries whose cost does not depend on their arguments.
fn is_constant(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

fn of_library(
    variables: &Variables<'_>,
    function: &str,
    overload: &str,
    target: Option<&AstNode<'_>>,
    args: &[AstNode<'_>],
) -> Option<CallEstimate> {
    let walk = |size: Estimate| size.scaled(STRING_TRAVERSAL);
    let cost = |cost: Estimate| Some((cost, None));
    match function {
        "check" => cost(Estimate::fixed(350_000)),
        _ if is_constant(function) => cost(ONE),
        "fieldSelector" | "labelSelector" if args.len() == 1 => {
            let size = args[0].size();
            let requirements = size.scaled(0.5).scaled((LIST + MESSAGE) as f64);
            cost(Estimate::fixed(LIST).plus(walk(size)).plus(requirements))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            let target = target?;
            let element = match &target.ty {
                Type::List(element) => element_cost(variables, target, element),
                // A string, or a value whose type is only known at run time.
                Type::Map(_) | Type::Opaque(..) | Type::Type(_) => ONE,
                _ if function == "includes" => ONE,
                _ => return cost(walk(target.size())),
            };
            cost(target.size().times(element))
        }
        "url" | "jsonpatch.escapeKey" if args.len() == 1 => Some((walk(args[0].size()), Some(args[0].size()))),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            let size = target?.size();
            Some((walk(size), Some(size)))
        }
        "replace" if args.len() >= 2 => {
            let size = target?.size();
            Some((size.scaled(2.0 * STRING_TRAVERSAL), Some(replaced(size, args[0].size(), args[1].size()))))
        }
        "split" => {
            let size = target?.size();
            let max = args.get(1).and_then(AstNode::as_int).map_or(size.max, |n| n as u64);
            Some((size.scaled(2.0 * STRING_TRAVERSAL), Some(Estimate { min: 0, max })))
        }
        "join" => {
            let size = joined_size(variables, target?, args.first());
            Some((walk(size), Some(size)))
        }
        "find" | "findAll" if !args.is_empty() => {
            let size = target?.size();
            let text = walk(size.plus(ONE));
            Some((text.times(args[0].size().scaled(REGEX)), Some(Estimate { min: 0, max: size.max })))
        }
        "ip" if overload == "cidr_ip" => cost(ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" if !args.is_empty() => {
            cost(walk(args[0].size()))
        }
        "ip.isCanonical" if !args.is_empty() => cost(args[0].size().scaled(2.0 * STRING_TRAVERSAL)),
        "containsIP" | "containsCIDR" if !args.is_empty() => cost(containment_cost(function, overload, args[0].size())),
        "validate" if !args.is_empty() => cost(walk(args[0].size()).scaled(FORMAT_REGEX_SIZE * REGEX)),
        "_==_" if args.len() == 2 && args[0].ty == args[1].ty => equality_cost(&args[0].ty, &args[1]).and_then(cost),
        _ => None,
    }
}

/// Returns the size of the result of `join`.
fn joined_size(variables: &Variables<'_>, list: &AstNode<'_>, separator: Option<&AstNode<'_>>) -> Estimate {
    let size = match &list.ty {
        Type::List(_) => list.size().times(element_size(variables, list)),
        _ => Estimate::fixed(0),
    };
    let Some(separator) = separator else { return size };
    let count = list.size();
    let between = Estimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    size.plus(separator.size().times(between))
}

/// Returns the cost of `containsIP` and `containsCIDR`; `arg` is the size of the argument.
fn containment_cost(function: &str, overload: &str, arg: Estimate) -> Estimate {
    let walk = |size: Estimate| size.scaled(STRING_TRAVERSAL);
    let address = Estimate { min: 4, max: 16 };
    let mut sum = walk(address.plus(address));
    if function == "containsCIDR" {
        sum = sum.plus(walk(address)).plus(ONE);
    }
    if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
        sum = sum.plus(walk(arg));
    }
    sum
}

/// Returns the cost of `==` for two values of a library's type; `None` for other types.
fn equality_cost(ty: &Type, right: &AstNode<'_>) -> Option<Estimate> {
    let Type::Opaque(name, _) = ty else { return None };
    match name.as_str() {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Some(ONE),
        "kubernetes.NamedFormat" => Some(Estimate { min: 1, max: 64 }.scaled(STRING_TRAVERSAL)),
        "kubernetes.URL" => {
            let max = right.size.map_or(1, |size| size.max);
            Some(Estimate { min: 1, max }.scaled(STRING_TRAVERSAL))
        }
        name if name.starts_with("kubernetes.authorization.") => Some(ONE),
        _ => None,
    }
}

/// Returns the cost of walking one element of a list.
fn element_cost(variables: &Variables<'_>, list: &AstNode<'_>, element: &Type) -> Estimate {
    match element {
        Type::String | Type::Bytes => ONE.plus(element_size(variables, list).scaled(STRING_TRAVERSAL)),
        _ => ONE,
    }
}

fn element_size(variables: &Variables<'_>, list: &AstNode<'_>) -> Estimate {
    let mut path = list.path.clone();
    if !path.is_empty() {
        path.push(Text::new_static("@items"));
    }
    variables.size_at(&path).unwrap_or(Estimate::UNKNOWN)
}

/// Returns the size of a string after replacing one substring by another.
fn replaced(size: Estimate, old: Estimate, new: Estimate) -> Estimate {
    let (mut count, mut remaining) = (Estimate::fixed(0), Estimate::fixed(0));
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        remaining.max = size.max;
    } else if new.max <= old.min {
        remaining.max = size.max;
    } else {
        count.max = (size.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        remaining.min = size.min;
    } else if old.max <= new.min {
        remaining.min = size.min;
    } else {
        count.min = (size.min as f64 / old.max as f64).ceil() as u64;
    }
    count.times(new).plus(remaining)
}

fn of_language(overload: &str, target: Option<&AstNode<'_>>, args: &[AstNode<'_>]) -> CallEstimate {
    let walk = |size: Estimate| size.scaled(STRING_TRAVERSAL);
    match (overload, target, args) {
        ("string_format", Some(target), _) => (walk(target.size()), None),
        ("string_to_bytes", _, [arg]) => {
            let size = arg.size();
            (walk(size), Some(Estimate { min: size.min, max: size.max.wrapping_mul(4) }))
        }
        ("bytes_to_string", _, [arg]) => {
            let size = arg.size();
            (walk(size), Some(Estimate { min: size.min / 4, max: size.max }))
        }
        ("strings_quote", _, [arg]) => {
            let size = arg.size();
            let max = size.max.wrapping_mul(2).wrapping_add(2);
            (walk(size), Some(Estimate { min: size.min.wrapping_add(2), max }))
        }
        ("starts_with_string" | "ends_with_string", _, [arg]) => (walk(arg.size()), None),
        ("in_list", _, [_, list]) => (list.size().scaled(1.0), None),
        ("matches_string", Some(target), [pattern]) => {
            (walk(target.size().plus(ONE)).times(pattern.size().scaled(REGEX)), None)
        }
        ("contains_string", Some(target), [part]) => (walk(target.size()).times(walk(part.size())), None),
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [a, b],
        ) => {
            let max = a.size().max.min(b.size().max);
            (walk(Estimate { min: u64::from(max > 0), max }), None)
        }
        _ => (ONE, None),
    }
}
