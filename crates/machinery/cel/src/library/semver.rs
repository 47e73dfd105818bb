//! Semantic versions.

use std::any::Any;
use std::cmp::Ordering;

use binnacle_meta::SemanticVersion;

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["kubernetes.Semver"] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each(
        "semver",
        &[
            ("string_to_semver", "(string) -> kubernetes.Semver", Some(semver)),
            ("string_bool_to_semver", "(string, bool) -> kubernetes.Semver", Some(semver)),
        ],
    ),
    FunctionDecl::each(
        "isSemver",
        &[
            ("is_semver_string", "(string) -> bool", Some(|_, args| Ok(Val::Bool(parse(args)?.is_ok())))),
            ("is_semver_string_bool", "(string, bool) -> bool", Some(|_, args| Ok(Val::Bool(parse(args)?.is_ok())))),
        ],
    ),
    FunctionDecl::each(
        "isGreaterThan",
        &[(
            "semver_is_greater_than",
            "kubernetes.Semver.(kubernetes.Semver) -> bool",
            Some(|_, args| Ok(Val::Bool(order(args)?.is_gt()))),
        )],
    ),
    FunctionDecl::each(
        "isLessThan",
        &[(
            "semver_is_less_than",
            "kubernetes.Semver.(kubernetes.Semver) -> bool",
            Some(|_, args| Ok(Val::Bool(order(args)?.is_lt()))),
        )],
    ),
    FunctionDecl::each(
        "compareTo",
        &[(
            "semver_compare_to",
            "kubernetes.Semver.(kubernetes.Semver) -> int",
            Some(|_, args| Ok(Val::Int(order(args)? as i64))),
        )],
    ),
    FunctionDecl::each("major", &[("semver_major", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 0)))]),
    FunctionDecl::each("minor", &[("semver_minor", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 1)))]),
    FunctionDecl::each("patch", &[("semver_patch", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 2)))]),
];

impl Opaque for SemanticVersion {
    fn ty(&self) -> Type {
        Type::opaque("kubernetes.Semver")
    }

    fn go_type(&self) -> &'static str {
        "cel.Semver"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn parse(args: &[Val<'_>]) -> std::result::Result<std::result::Result<SemanticVersion, String>, Error> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    let leniently = args.get(1).is_some_and(|arg| matches!(arg, Val::Bool(true)));
    Ok(if leniently { SemanticVersion::parse_tolerant(text) } else { SemanticVersion::parse(text) })
}

fn semver<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    parse(args)?.map(Val::opaque).map_err(Error::new)
}

fn version<'v>(value: &'v Val<'_>) -> std::result::Result<&'v SemanticVersion, Error> {
    value.as_opaque().ok_or_else(Error::no_such_overload)
}

fn order(args: &[Val<'_>]) -> std::result::Result<Ordering, Error> {
    Ok(version(&args[0])?.cmp(version(&args[1])?))
}

fn number<'a>(args: &[Val<'a>], index: usize) -> Result<'a> {
    Ok(Val::Int(version(&args[0])?.numbers()[index] as i64))
}
