//! Semantic versions.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use binnacle_meta::go_quote;

use super::Library;
use crate::error::Error;
use crate::functions::Decl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["kubernetes.Semver"] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[Decl] = &[
    Decl::each(
        "semver",
        &[
            ("string_to_semver", "(string) -> kubernetes.Semver", Some(semver)),
            ("string_bool_to_semver", "(string, bool) -> kubernetes.Semver", Some(semver)),
        ],
    ),
    Decl::each(
        "isSemver",
        &[
            ("is_semver_string", "(string) -> bool", Some(|_, args| Ok(Val::Bool(read(args)?.is_ok())))),
            ("is_semver_string_bool", "(string, bool) -> bool", Some(|_, args| Ok(Val::Bool(read(args)?.is_ok())))),
        ],
    ),
    Decl::each(
        "isGreaterThan",
        &[(
            "semver_is_greater_than",
            "kubernetes.Semver.(kubernetes.Semver) -> bool",
            Some(|_, args| Ok(Val::Bool(order(args)?.is_gt()))),
        )],
    ),
    Decl::each(
        "isLessThan",
        &[(
            "semver_is_less_than",
            "kubernetes.Semver.(kubernetes.Semver) -> bool",
            Some(|_, args| Ok(Val::Bool(order(args)?.is_lt()))),
        )],
    ),
    Decl::each(
        "compareTo",
        &[(
            "semver_compare_to",
            "kubernetes.Semver.(kubernetes.Semver) -> int",
            Some(|_, args| Ok(Val::Int(order(args)? as i64))),
        )],
    ),
    Decl::each("major", &[("semver_major", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 0)))]),
    Decl::each("minor", &[("semver_minor", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 1)))]),
    Decl::each("patch", &[("semver_patch", "kubernetes.Semver.() -> int", Some(|_, a| number(a, 2)))]),
];

#[derive(Debug)]
struct Version {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
    text: String,
}

/// Numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Version {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number_of(major, "major")?, number_of(minor, "minor")?, number_of(patch, "patch")?];
        let pre = match pre {
            Some(pre) => pre.split('.').map(identifier).collect::<std::result::Result<_, _>>()?,
            None => Vec::new(),
        };
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !allowed(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quote(word)));
            }
        }
        Ok(Self { numbers, pre, text: text.to_owned() })
    }

    /// Fills in what is left out and takes away a `v` and zeroes before numbers.
    fn parse_leniently(text: &str) -> std::result::Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let stripped = part.trim_start_matches('0');
            *part = if stripped.starts_with(|c: char| c.is_ascii_digit()) {
                stripped.to_owned()
            } else {
                format!("0{stripped}")
            };
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    fn compare(&self, other: &Self) -> Ordering {
        // A version comes after its previews.
        let release = other.pre.is_empty().cmp(&self.pre.is_empty()).reverse();
        self.numbers.cmp(&other.numbers).then(release).then_with(|| self.pre.cmp(&other.pre))
    }
}

fn number_of(text: &str, which: &str) -> std::result::Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {which} number {}", go_quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        let which = format!("{}{}", which[..1].to_ascii_uppercase(), &which[1..]);
        return Err(format!("{which} number must not contain leading zeroes {}", go_quote(text)));
    }
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", go_quote(text))
    })
}

fn identifier(text: &str) -> std::result::Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", go_quote(text)));
        }
        let range = |_| format!("strconv.ParseUint: parsing {}: value out of range", go_quote(text));
        return text.parse().map(Identifier::Number).map_err(range);
    }
    if !allowed(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)));
    }
    Ok(Identifier::Word(text.to_owned()))
}

fn allowed(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Opaque for Version {
    fn ty(&self) -> Type {
        Type::opaque("kubernetes.Semver")
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.compare(other).is_eq())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn read(args: &[Val<'_>]) -> std::result::Result<std::result::Result<Version, String>, Error> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    let leniently = args.get(1).is_some_and(|arg| matches!(arg, Val::Bool(true)));
    Ok(if leniently { Version::parse_leniently(text) } else { Version::parse(text) })
}

fn semver<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    read(args)?.map(Val::opaque).map_err(Error::new)
}

fn version<'v>(value: &'v Val<'_>) -> std::result::Result<&'v Version, Error> {
    value.as_opaque().ok_or_else(Error::no_such_overload)
}

fn order(args: &[Val<'_>]) -> std::result::Result<Ordering, Error> {
    Ok(version(&args[0])?.compare(version(&args[1])?))
}

fn number<'a>(args: &[Val<'a>], which: usize) -> Result<'a> {
    Ok(Val::Int(version(&args[0])?.numbers[which] as i64))
}
