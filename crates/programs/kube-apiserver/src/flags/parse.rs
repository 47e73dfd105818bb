//! Parsing of a command line with the rules of `pflag`, which all Kubernetes programs use: `--name value`,
//! `--name=value`, `-n value`, `-nvalue`, underscores for dashes, the last value wins.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use binnacle_meta::{GoDuration, go_quote, int_error};

use super::table::{Flag, FlagError, Group, ValueKind};

/// The flags of the command line; a flag that is not given has its default.
#[derive(Clone)]
pub(super) struct FlagSet {
    definitions: HashMap<&'static str, Flag>,
    values: HashMap<&'static str, Vec<String>>,
    /// The flags whose values are from the file of `--config`.
    from_file: BTreeSet<&'static str>,
}

/// Parses all arguments. Invalid ones are left out and reported as errors.
pub(super) fn parse(groups: &[Group], arguments: impl Iterator<Item = OsString>) -> (FlagSet, Vec<FlagError>) {
    let definitions = groups.iter().flat_map(|group| group.flags).map(|flag| (flag.name, *flag)).collect();
    let mut flags = FlagSet { definitions, values: HashMap::new(), from_file: BTreeSet::new() };
    let mut arguments = arguments.map(|argument| {
        argument.into_string().map_err(|argument| FlagError::new(format!("argument {argument:?} is not valid UTF-8")))
    });
    let (mut positional, mut errors) = (Vec::new(), Vec::new());
    let mut flags_ended = false;
    while let Some(argument) = arguments.next() {
        let read = match argument {
            Err(error) => Err(error),
            Ok(argument) if flags_ended || argument == "-" || !argument.starts_with('-') => {
                positional.push(argument);
                Ok(())
            }
            Ok(argument) if argument == "--" => {
                flags_ended = true;
                Ok(())
            }
            Ok(argument) => match argument.strip_prefix("--") {
                Some(long) => flags.long(long, &mut arguments),
                None => flags.short(&argument[1..], &mut arguments),
            },
        };
        errors.extend(read.err());
    }
    if !positional.is_empty() {
        let shown = positional.iter().map(|argument| go_quote(argument)).collect::<Vec<_>>().join(" ");
        errors.push(FlagError::new(format!("\"kube-apiserver\" does not take any arguments, got [{shown}]")));
    }
    (flags, errors)
}

impl FlagSet {
    fn long(
        &mut self,
        text: &str,
        rest: &mut impl Iterator<Item = Result<String, FlagError>>,
    ) -> Result<(), FlagError> {
        if text.starts_with(['-', '=']) {
            return Err(FlagError::new(format!("bad flag syntax: --{text}")));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let name = name.replace('_', "-");
        let Some(flag) = self.definitions.get(name.as_str()).copied() else {
            return Err(FlagError::unknown(name));
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => value,
            (None, ValueKind::Bool | ValueKind::Optional(_)) => "true".to_owned(),
            (None, ValueKind::Value(_)) => {
                rest.next().ok_or_else(|| FlagError::new(format!("flag needs an argument: --{name}")))??
            }
        };
        self.push(&flag, value)
    }

    /// Adds a value if it is valid for the flag; otherwise removes the flag.
    fn push(&mut self, flag: &Flag, value: String) -> Result<(), FlagError> {
        self.values.entry(flag.name).or_default().push(value);
        let checked = self.check(flag);
        if checked.is_err() {
            self.values.remove(flag.name);
        }
        checked
    }

    /// Sets a flag that is not on the command line, if the values are valid for it.
    pub(super) fn add_from_file(&mut self, flag: &Flag, values: Vec<String>) -> Result<(), String> {
        self.from_file.insert(flag.name);
        values.into_iter().try_for_each(|value| self.push(flag, value)).map_err(|error| error.to_string())
    }

    /// Copies the value of one flag from another set.
    pub(super) fn take_from(&mut self, other: &Self, name: &str) {
        let Some(name) = self.definitions.get_key_value(name).map(|(name, _)| *name) else { return };
        match other.values.get(name) {
            Some(values) => self.values.insert(name, values.clone()),
            None => self.values.remove(name),
        };
        match other.from_file.contains(name) {
            true => self.from_file.insert(name),
            false => self.from_file.remove(name),
        };
    }

    /// Returns true if a flag's value is from the file of `--config`.
    pub(super) fn is_from_file(&self, name: &str) -> bool {
        self.from_file.contains(name)
    }

    /// Validates the value, even if the flag is ignored.
    fn check(&self, flag: &Flag) -> Result<(), FlagError> {
        match flag.kind {
            ValueKind::Bool => self.flag(flag.name).map(drop),
            ValueKind::Value("int" | "int32" | "int64") => self.integer(flag.name).map(drop),
            ValueKind::Value("float" | "float32") => self.float(flag.name).map(drop),
            ValueKind::Value("duration") => self.duration(flag.name).map(drop),
            ValueKind::Value(_) | ValueKind::Optional(_) => Ok(()),
        }
    }

    fn short(
        &mut self,
        text: &str,
        rest: &mut impl Iterator<Item = Result<String, FlagError>>,
    ) -> Result<(), FlagError> {
        let mut left = text;
        while let Some(letter) = left.chars().next() {
            let Some(flag) = self.definitions.values().find(|flag| flag.short == Some(letter)).copied() else {
                return Err(FlagError::new(format!("unknown shorthand flag: '{letter}' in -{left}")));
            };
            let behind = &left[letter.len_utf8()..];
            let value = match (behind.strip_prefix('='), flag.kind) {
                (Some(value), _) => value.to_owned(),
                (None, ValueKind::Bool | ValueKind::Optional(_)) => {
                    self.values.entry(flag.name).or_default().push("true".to_owned());
                    left = behind;
                    continue;
                }
                (None, ValueKind::Value(_)) if !behind.is_empty() => behind.to_owned(),
                (None, ValueKind::Value(_)) => rest
                    .next()
                    .ok_or_else(|| FlagError::new(format!("flag needs an argument: '{letter}' in -{left}")))??,
            };
            return self.push(&flag, value);
        }
        Ok(())
    }

    /// Returns all values of a flag in order, or its default.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        match self.values.get(name) {
            Some(values) => values.iter().map(String::as_str).collect(),
            None => self
                .definitions
                .get(name)
                .map(|flag| flag.default)
                .filter(|text| !text.is_empty())
                .into_iter()
                .collect(),
        }
    }

    /// Returns the last value of a flag, or its default; `None` for an empty one.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).pop().filter(|text| !text.is_empty())
    }

    /// Returns true if the command line gives a flag.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns the parts of all values of a comma-separated flag.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.all(name).into_iter().flat_map(|text| text.split(','));
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the given flags, sorted by name.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.values.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Returns the command line without a flag.
    pub(super) fn without(&self, name: &str) -> Self {
        let mut without = self.clone();
        without.values.remove(name);
        without
    }

    /// Returns all flags, sorted by name, with their values as Go's flags format them.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let mut names: Vec<&'static str> = self.definitions.keys().copied().collect();
        names.sort_unstable();
        names.into_iter().map(|name| (name.to_owned(), self.shown_value(name))).collect()
    }

    fn shown_value(&self, name: &str) -> String {
        let values = self.all(name);
        let last = || values.last().copied().unwrap_or_default().to_owned();
        match self.definitions.get(name).map(|flag| flag.kind) {
            Some(ValueKind::Bool) => self.flag(name).unwrap_or(false).to_string(),
            Some(ValueKind::Value("strings" | "stringArray" | "stringToString")) => format!("[{}]", values.join(",")),
            Some(ValueKind::Value("mapStringString")) => values.join(","),
            _ => last(),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, FlagError> {
        let Some(text) = self.all(name).pop() else { return Ok(false) };
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            other => {
                let why = format!("strconv.ParseBool: parsing {}: invalid syntax", go_quote(other));
                Err(self.invalid(name, other, &why))
            }
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, FlagError> {
        let text = self.all(name).pop().unwrap_or_default();
        text.parse().map_err(|error: <i64 as FromStr>::Err| {
            let why = int_error(&error);
            self.invalid(name, text, &format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)))
        })
    }

    /// Parses a floating-point number.
    pub(super) fn float(&self, name: &str) -> Result<f32, FlagError> {
        let text = self.all(name).pop().unwrap_or_default();
        text.parse().map_err(|_| {
            self.invalid(name, text, &format!("strconv.ParseFloat: parsing {}: invalid syntax", go_quote(text)))
        })
    }

    /// Parses a duration in Go's format; negative ones count as zero.
    pub(super) fn duration(&self, name: &str) -> Result<Duration, FlagError> {
        let text = self.all(name).pop().unwrap_or_default();
        let parsed = GoDuration::parse(text).map_err(|error| self.invalid(name, text, &error.to_string()))?;
        Ok(u64::try_from(parsed.nanos()).map_or(Duration::ZERO, Duration::from_nanos))
    }

    /// Parses a value with its own parser and error messages.
    pub(super) fn parsed<T: FromStr<Err = String>>(&self, name: &str) -> Result<T, FlagError> {
        let text = self.all(name).pop().unwrap_or_default();
        text.parse().map_err(|why: String| self.invalid(name, text, &why))
    }

    /// Parses an address, if there is one.
    pub(super) fn ip(&self, name: &str) -> Result<Option<IpAddr>, FlagError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let invalid = || self.invalid(name, text, &format!("failed to parse IP: {}", go_quote(text)));
        text.parse().map(Some).map_err(|_| invalid())
    }

    pub(super) fn invalid(&self, name: &str, value: &str, why: &str) -> FlagError {
        let shown = match self.definitions.get(name).and_then(|flag| flag.short) {
            Some(short) => format!("-{short}, --{name}"),
            None => format!("--{name}"),
        };
        FlagError::Invalid(format!("invalid argument {} for \"{shown}\" flag: {why}", go_quote(value)))
    }
}
