//! `--config`: flags in a YAML file. Its keys are the names of flags; a flag on the command line wins over the file.

use std::io;

use binnacle_meta::{Text, go_quote};
use binnacle_schema::{Limits, Object, Value, yaml};

use super::GROUPS;
use super::parse::FlagSet;
use super::similar::similar;
use super::table::{Flag, FlagError, ValueKind};

/// Flags that do not start a server, so that they cannot be in a file.
const NOT_IN_FILES: [&str; 4] = ["check-config", "config", "help", "version"];

/// The most errors that are reported.
const MAX_ERRORS: usize = 100;

/// Adds the flags of the file that `--config` names, if it is given. Returns its contents, and all errors, each with
/// the file's name.
pub(super) fn add(flags: &mut FlagSet) -> (Vec<u8>, Vec<FlagError>) {
    let Some(path) = flags.text("config").map(str::to_owned) else { return (Vec::new(), Vec::new()) };
    match binnacle_config::read(path.as_ref()) {
        Ok(data) => {
            let errors = add_text(flags, &path, &data);
            (data, errors)
        }
        Err(error) => {
            let error = FlagError::new(format!("--config: {}", unreadable(path.as_ref(), &error)));
            (Vec::new(), vec![error])
        }
    }
}

/// Adds the flags in the text of a file.
pub(super) fn add_text(flags: &mut FlagSet, path: &str, data: &[u8]) -> Vec<FlagError> {
    let failed = |why: String| FlagError::new(format!("--config {path}: {why}"));
    let (tree, twice) = match yaml::parse(data, &Limits::default()) {
        Ok(read) => read,
        Err(error) => return vec![failed(error.to_string())],
    };
    let members = match tree {
        Value::Object(members) => members,
        // An empty file has no flags.
        Value::Null => Object::new(),
        _ => return vec![failed("must be a mapping from names of flags to values".to_owned())],
    };
    let mut errors: Vec<FlagError> = twice.iter().map(|finding| failed(finding.to_string())).collect();
    for (key, value) in members.iter() {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        let name = key.replace('_', "-");
        let result = match find(&name) {
            Some(_) if NOT_IN_FILES.contains(&name.as_str()) => {
                Err(format!("flag {} cannot be in a file", go_quote(key)))
            }
            Some(flag) if flags.is_given(flag.name) => Ok(()),
            Some(flag) => values(flag, value).and_then(|values| flags.add_from_file(flag, values)),
            None => Err(format!("unknown flag {}{}", go_quote(key), suggestion(&name))),
        };
        errors.extend(result.err().map(failed));
    }
    errors
}

fn find(name: &str) -> Option<&'static Flag> {
    GROUPS.iter().flat_map(|group| group.flags).find(|flag| flag.name == name)
}

/// Returns ` (did you mean "secure-port"?)` if a flag has a similar name.
pub(super) fn suggestion(name: &str) -> String {
    similar(name).map_or_else(String::new, |flag| format!(" (did you mean {}?)", go_quote(flag)))
}

/// Returns the values of a flag as a command line would have them.
fn values(flag: &Flag, value: &Value) -> Result<Vec<String>, String> {
    let takes = |what: &str| format!("flag {} takes {what}", go_quote(flag.name));
    let values = match (value, ListSyntax::of(flag)) {
        (Value::List(_) | Value::Object(_), ListSyntax::Scalar) => return Err(takes("one value")),
        (Value::List(items), _) => items
            .iter()
            .map(|item| scalar(item).ok_or_else(|| takes("a list of texts, numbers or booleans")))
            .collect::<Result<Vec<_>, _>>()?,
        (Value::Object(members), _) => {
            let pair = |(key, value): (&Text, &Value)| {
                let value = scalar(value).ok_or_else(|| takes("a mapping to texts, numbers or booleans"))?;
                Ok(format!("{key}={value}"))
            };
            members.iter().map(pair).collect::<Result<Vec<_>, String>>()?
        }
        (value, _) => return scalar(value).map(|text| vec![text]).ok_or_else(|| takes("one value")),
    };
    Ok(match ListSyntax::of(flag) {
        ListSyntax::CommaSeparated => vec![values.join(",")],
        _ => values,
    })
}

/// The way in which a flag has several values.
enum ListSyntax {
    Scalar,
    /// In one value, with commas.
    CommaSeparated,
    /// As repeated flags.
    Repeated,
}

impl ListSyntax {
    fn of(flag: &Flag) -> Self {
        match flag.kind {
            // Two address ranges are one value.
            ValueKind::Value("string") if flag.name == "service-cluster-ip-range" => Self::CommaSeparated,
            ValueKind::Value("colonSeparatedMultimapStringString" | "int32Slice" | "pattern=N,...") => {
                Self::CommaSeparated
            }
            ValueKind::Value("strings" | "stringArray" | "stringToString" | "mapStringString" | "namedCertKey") => {
                Self::Repeated
            }
            _ => Self::Scalar,
        }
    }
}

/// Formats a string, number or boolean as the value of a flag.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Formats an error like Go.
pub(super) fn unreadable(path: &std::path::Path, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    };
    format!("open {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::parse::parse;
    use super::*;

    #[test]
    fn limits_errors_of_long_files() {
        let (mut flags, _) = parse(&GROUPS, std::iter::empty::<OsString>());
        let many: String = (0..100_000).map(|n| format!("v{n}: 1\n")).collect();
        let errors = add_text(&mut flags, "f", many.as_bytes());
        assert_eq!(errors.len(), MAX_ERRORS);
        assert_eq!(suggestion("secure-prot"), " (did you mean \"secure-port\"?)");
        assert_eq!(suggestion(&"secure-port".repeat(100_000)), "");
    }
}
