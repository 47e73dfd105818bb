//! Quantities such as `1.5Gi`.

use std::any::Any;
use std::fmt;

use binnacle_meta::{Format, Quantity};

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["kubernetes.Quantity"] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("quantity", &[("string_to_quantity", "(string) -> kubernetes.Quantity", Some(quantity))]),
    FunctionDecl::each("isQuantity", &[("is_quantity_string", "(string) -> bool", Some(is_quantity))]),
    FunctionDecl::each("sign", &[("quantity_sign", "(kubernetes.Quantity) -> int", Some(sign))]),
    FunctionDecl::each(
        "isGreaterThan",
        &[(
            "quantity_is_greater_than",
            "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
            Some(|_, args| Ok(Val::Bool(two(args)?.0 > two(args)?.1))),
        )],
    ),
    FunctionDecl::each(
        "isLessThan",
        &[(
            "quantity_is_less_than",
            "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
            Some(|_, args| Ok(Val::Bool(two(args)?.0 < two(args)?.1))),
        )],
    ),
    FunctionDecl::each(
        "compareTo",
        &[("quantity_compare_to", "kubernetes.Quantity.(kubernetes.Quantity) -> int", Some(compare_to))],
    ),
    FunctionDecl::each(
        "asApproximateFloat",
        &[(
            "quantity_get_float",
            "kubernetes.Quantity.() -> double",
            Some(|_, args| Ok(Val::Double(one(&args[0])?.as_approximate_f64()))),
        )],
    ),
    FunctionDecl::each("asInteger", &[("quantity_get_int", "kubernetes.Quantity.() -> int", Some(as_integer))]),
    FunctionDecl::each(
        "isInteger",
        &[(
            "quantity_is_integer",
            "kubernetes.Quantity.() -> bool",
            Some(|_, args| Ok(Val::Bool(one(&args[0])?.as_i64().is_some()))),
        )],
    ),
    FunctionDecl::each(
        "add",
        &[
            ("quantity_add", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity", Some(add)),
            ("quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", Some(add)),
        ],
    ),
    FunctionDecl::each(
        "sub",
        &[
            ("quantity_sub", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity", Some(sub)),
            ("quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", Some(sub)),
        ],
    ),
];

macro_rules! opaque {
    ($type:ty, $go:expr) => {
        impl Opaque for $type {
            fn ty(&self) -> Type {
                Type::opaque("kubernetes.Quantity")
            }

            fn go_type(&self) -> &'static str {
                $go
            }

            fn equals(&self, other: &dyn Opaque) -> bool {
                of(self) == of(other)
            }

            fn as_any(&self) -> &dyn Any {
                self
            }
        }
    };
}

opaque!(Quantity, "cel.Quantity");
opaque!(ComputedQuantity, "*cel.Quantity");

/// The result of an addition or subtraction, which has another Go type.
#[derive(Debug)]
struct ComputedQuantity(Quantity);

impl fmt::Display for ComputedQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn of(value: &dyn Opaque) -> Option<&Quantity> {
    let value = value.as_any();
    value.downcast_ref().or_else(|| value.downcast_ref().map(|ComputedQuantity(quantity)| quantity))
}

fn one<'v>(value: &'v Val<'_>) -> std::result::Result<&'v Quantity, Error> {
    match value {
        Val::Opaque(value) => of(&**value).ok_or_else(Error::no_such_overload),
        _ => Err(Error::no_such_overload()),
    }
}

fn two<'v>(args: &'v [Val<'_>]) -> std::result::Result<(&'v Quantity, &'v Quantity), Error> {
    Ok((one(&args[0])?, one(&args[1])?))
}

fn quantity<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match Quantity::parse(args[0].as_str().ok_or_else(Error::no_such_overload)?) {
        Ok(quantity) => Ok(Val::opaque(quantity)),
        Err(error) => Err(Error::new(error.to_string())),
    }
}

fn is_quantity<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    Ok(Val::Bool(Quantity::parse(text).is_ok()))
}

fn sign<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Int(one(&args[0])?.sign().into()))
}

fn compare_to<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = two(args)?;
    Ok(Val::Int(a.cmp(b) as i64))
}

fn as_integer<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    one(&args[0])?.as_i64().map(Val::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
}

fn add<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    combined(args, Quantity::add)
}

fn sub<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    combined(args, Quantity::sub)
}

fn combined<'a>(args: &[Val<'a>], combine: fn(&mut Quantity, &Quantity)) -> Result<'a> {
    let mut quantity = one(&args[0])?.clone();
    match &args[1] {
        Val::Int(n) => combine(&mut quantity, &Quantity::new(*n, Format::DecimalExponent)),
        other => combine(&mut quantity, one(other)?),
    }
    Ok(Val::opaque(ComputedQuantity(quantity)))
}
