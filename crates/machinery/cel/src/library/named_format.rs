//! Named string formats.

use std::any::Any;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_validation::names;
use binnacle_validation::url::Url;

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Timestamp, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["kubernetes.NamedFormat"] }
}

/// Returns the size of a format's pattern, for the cost of checking it.
pub(super) fn max_regex_size(format: &Val<'_>) -> u64 {
    format.as_opaque::<&'static Format>().map_or(1, |format| format.max_regex_size)
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FORMAT: &str = "() -> kubernetes.NamedFormat";

macro_rules! constant {
    ($name:literal) => {
        FunctionDecl::each(
            concat!("format.", $name),
            &[(concat!("format.", $name), FORMAT, Some(|_, _| named_or_fail($name)))],
        )
    };
}

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each(
        "validate",
        &[("format-validate", "kubernetes.NamedFormat.(string) -> optional_type(list(string))", Some(validate))],
    ),
    FunctionDecl::each(
        "format.named",
        &[("format-named", "(string) -> optional_type(kubernetes.NamedFormat)", Some(named))],
    ),
    constant!("dns1123Label"),
    constant!("dns1123Subdomain"),
    constant!("dns1035Label"),
    constant!("qualifiedName"),
    constant!("dns1123LabelPrefix"),
    constant!("dns1123SubdomainPrefix"),
    constant!("dns1035LabelPrefix"),
    constant!("labelValue"),
    constant!("uri"),
    constant!("uuid"),
    constant!("byte"),
    constant!("date"),
    constant!("datetime"),
];

struct Format {
    name: &'static str,
    display_name: &'static str,
    max_regex_size: u64,
    /// Returns the errors of a text.
    check: fn(&str) -> Vec<String>,
}

const FORMATS: &[Format] = &[
    Format {
        name: "dns1123Label",
        display_name: "DNS1123Label",
        max_regex_size: 30,
        check: |text| names::dns1123_label_name(text, false),
    },
    Format {
        name: "dns1123Subdomain",
        display_name: "DNS1123Subdomain",
        max_regex_size: 60,
        check: |text| names::dns1123_subdomain_name(text, false),
    },
    Format {
        name: "dns1035Label",
        display_name: "DNS1035Label",
        max_regex_size: 30,
        check: |text| names::dns1035_label_name(text, false),
    },
    Format { name: "qualifiedName", display_name: "QualifiedName", max_regex_size: 60, check: names::label_key },
    Format {
        name: "dns1123LabelPrefix",
        display_name: "DNS1123LabelPrefix",
        max_regex_size: 30,
        check: |text| names::dns1123_label_name(text, true),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        display_name: "DNS1123SubdomainPrefix",
        max_regex_size: 60,
        check: |text| names::dns1123_subdomain_name(text, true),
    },
    Format {
        name: "dns1035LabelPrefix",
        display_name: "DNS1035LabelPrefix",
        max_regex_size: 30,
        check: |text| names::dns1035_label_name(text, true),
    },
    Format { name: "labelValue", display_name: "LabelValue", max_regex_size: 40, check: names::label_value },
    Format {
        name: "uri",
        display_name: "URI",
        max_regex_size: 1103,
        check: |text| Url::parse_request(text).err().into_iter().collect(),
    },
    Format {
        name: "uuid",
        display_name: "uuid",
        max_regex_size: UUID_PATTERN.len() as u64,
        check: |text| error_unless(is_uuid(text), "does not match the UUID format"),
    },
    Format {
        name: "byte",
        display_name: "byte",
        max_regex_size: 84,
        check: |text| error_unless(!text.is_empty() && STANDARD.decode(text).is_ok(), "invalid base64"),
    },
    Format {
        name: "date",
        display_name: "date",
        max_regex_size: DATE_TIME_PATTERN.len() as u64,
        check: |text| error_unless(text.len() == 10 && is_time(&format!("{text}T00:00:00Z")), "invalid date"),
    },
    Format {
        name: "datetime",
        display_name: "datetime",
        max_regex_size: DATE_TIME_PATTERN.len() as u64,
        check: |text| error_unless(is_time(text), "invalid datetime"),
    },
];

/// kube-apiserver's patterns, whose sizes are part of the cost of a check.
const UUID_PATTERN: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const DATE_TIME_PATTERN: &str = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";

fn error_unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

fn is_time(text: &str) -> bool {
    Timestamp::parse(text).is_some_and(|time| time.is_ok())
}

/// Returns true for eight, four, four, four and twelve digits, with or without dashes between them.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (i, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.as_bytes().get(..digits) {
            Some(run) if run.iter().all(u8::is_ascii_hexdigit) => rest = &rest[digits..],
            _ => return false,
        }
    }
    rest.is_empty()
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.display_name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.display_name)
    }
}

impl Opaque for &'static Format {
    fn ty(&self) -> Type {
        Type::opaque("kubernetes.NamedFormat")
    }

    fn go_type(&self) -> &'static str {
        "cel.Format"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.name == other.name)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn find(name: &str) -> Option<Val<'static>> {
    FORMATS.iter().find(|format| format.name == name).map(Val::opaque)
}

fn named_or_fail(name: &str) -> std::result::Result<Val<'static>, Error> {
    find(name).ok_or_else(Error::no_such_overload)
}

fn named<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let name = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    Ok(find(name).map_or(Val::Optional(None), Val::some))
}

fn validate<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let format: &&'static Format = args[0].as_opaque().ok_or_else(Error::no_such_overload)?;
    let problems = (format.check)(args[1].as_str().ok_or_else(Error::no_such_overload)?);
    if problems.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::some(Val::list(problems.into_iter().map(Val::str).collect())))
}
