//! Validation of values against their schema, with the behavior of kube-openapi's validator.

mod numbers;
mod scalars;
#[cfg(test)]
mod tests;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, go_quote};
use binnacle_schema::{Object, Value};
use binnacle_work::{allocate, charge, charge_bytes};

use crate::correlation::CorrelatedObject;
use crate::error_value::error_value;
use crate::format::Format;
use crate::list_types::repeated;
use crate::path::Path;
use crate::structural::{AdditionalProperties, Alternatives, SchemaType, Size, Structural, Values};
use crate::weight::charge_lookup;

/// The steps of validating a value, besides its members and errors.
const VISIT: u64 = 6;
/// The steps of creating an error.
const ERROR: u64 = 30;

/// Validates a new value. `base` is the prefix of all paths.
pub fn validate(value: &Value, schema: &Structural, base: &FieldPath, errors: &mut FieldErrors) {
    let outcome = Validator { base, of_default: false }.node(value, schema, &Path::Root, None);
    errors.extend(outcome.errors);
}

/// Validates a change: unchanged values are accepted, even if the schema has changed.
pub fn validate_update(change: &CorrelatedObject<'_>, schema: &Structural, base: &FieldPath, errors: &mut FieldErrors) {
    let outcome = Validator { base, of_default: false }.validate_change(schema, &Path::Root, change);
    errors.extend(outcome.errors);
}

/// Validates a default.
pub(crate) fn validate_default(value: &Value, schema: &Structural, base: &FieldPath, errors: &mut FieldErrors) {
    let outcome = Validator { base, of_default: true }.node(value, schema, &Path::Root, None);
    errors.extend(outcome.errors);
}

struct Validator<'b> {
    base: &'b FieldPath,
    /// True for defaults: unknown formats have an effect, and numbers or texts match any type.
    of_default: bool,
}

/// The errors of a value, and the number of its matches: if all alternatives fail, the errors of the best match are
/// reported.
#[derive(Debug, Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: u64,
}

/// The types that a value may have.
#[derive(Clone, Copy)]
enum Types<'s> {
    Any,
    One(&'s SchemaType),
    IntOrString,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns true if further errors make no difference.
    fn is_full(&self) -> bool {
        self.errors.len() > FieldErrors::SHOWN
    }

    /// Adds an error that is new, unless the limit is reached.
    fn push(&mut self, error: FieldError) {
        let size = size_of::<FieldError>() + error.field.as_str().len() + error.body().len();
        let steps = ERROR + self.errors.len() as u64 + size as u64 / 16;
        if self.is_full() || charge(steps).is_err() || allocate(size).is_err() {
            return;
        }
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        if self.errors.is_empty() {
            self.errors = other.errors;
        } else {
            other.errors.into_iter().for_each(|error| self.push(error));
        }
    }
}

impl<'s> Types<'s> {
    fn contains(self, kind: &SchemaType) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == kind,
            Self::IntOrString => matches!(kind, SchemaType::Integer | SchemaType::String),
        }
    }

    fn type_name(self) -> &'s str {
        match self {
            Self::Any => "",
            Self::One(kind) => kind.as_str(),
            Self::IntOrString => "integer,string",
        }
    }
}

impl Validator<'_> {
    /// Validates a value, and drops its errors if it is unchanged.
    fn validate_change(&self, schema: &Structural, path: &Path<'_>, change: &CorrelatedObject<'_>) -> Outcome {
        let mut outcome = self.node(change.new, schema, path, Some(change));
        if !outcome.is_valid() && change.is_unchanged() {
            outcome.errors.clear();
        }
        outcome
    }

    /// Validates a value below another one, as a change if it is correlated with an old value.
    fn below(
        &self,
        value: &Value,
        schema: &Structural,
        path: &Path<'_>,
        change: Option<CorrelatedObject<'_>>,
    ) -> Outcome {
        match change {
            Some(change) => self.validate_change(schema, path, &change),
            None => self.node(value, schema, path, None),
        }
    }

    fn node(
        &self,
        value: &Value,
        schema: &Structural,
        path: &Path<'_>,
        change: Option<&CorrelatedObject<'_>>,
    ) -> Outcome {
        let types = self.types(schema);
        let values = schema.values.as_deref();
        let format = self.format(schema);
        let mut outcome = Outcome::default();
        if charge(VISIT).is_err() {
            return outcome;
        }
        if value.is_null() {
            match types {
                Types::Any => outcome.matches += 1,
                _ if schema.nullable => outcome.matches += 1,
                types => outcome.push(self.wrong_type(path, types.type_name(), "null")),
            }
            self.enumeration(value, values, path, &mut outcome);
            return outcome;
        }
        if !matches!(types, Types::Any) || format.is_some() {
            match self.kind(value, types, format, path) {
                Ok(()) => outcome.matches += 1,
                Err(error) => outcome.push(error),
            }
            outcome.matches += 1;
        }
        if let Some(alternatives) = values.and_then(Values::alternatives) {
            self.alternatives(value, alternatives, path, &mut outcome);
        }
        // One for the alternatives and one for their check, one for the enumeration, one for the node.
        outcome.matches += 4;
        match value {
            Value::Str(text) => {
                self.text(text, values, path, &mut outcome);
                outcome.matches += 1;
                if let Some(format) = format
                    && let Some(supported) = format.supported()
                {
                    outcome.matches += 1;
                    if charge_bytes(4 * text.len()).is_err() || !supported.matches(text) {
                        outcome.push(self.wrong_type(path, format.as_str(), text));
                    }
                }
            }
            Value::Int(_) | Value::Float(_) => {
                self.number(value, schema, format, path, &mut outcome);
                outcome.matches += 2;
            }
            Value::List(items) => {
                self.list(items, schema, path, change, &mut outcome);
                outcome.matches += 2;
            }
            Value::Null | Value::Bool(_) | Value::Raw(_) | Value::Object(_) => {}
        }
        self.enumeration(value, values, path, &mut outcome);
        // As in kube-apiserver, the errors of members follow the error of the enumeration.
        if let Value::Object(object) = value {
            self.object(object, schema, path, change, &mut outcome);
            outcome.matches += 1;
        }
        outcome
    }

    fn types<'s>(&self, schema: &'s Structural) -> Types<'s> {
        match &schema.kind {
            _ if schema.int_or_string && !self.of_default => Types::IntOrString,
            Some(kind) => Types::One(kind),
            None => Types::Any,
        }
    }

    /// Returns the format, if it applies to values of this type.
    fn format<'s>(&self, schema: &'s Structural) -> Option<&'s Format> {
        let format = schema.values.as_ref()?.format.as_deref()?;
        let name = format.as_str();
        let means_something = self.of_default
            || match self.types(schema) {
                Types::One(SchemaType::Integer) => matches!(name, "int32" | "int64"),
                Types::One(SchemaType::Number) => matches!(name, "float" | "double"),
                Types::One(SchemaType::String) | Types::Any | Types::IntOrString => format.supported().is_some(),
                Types::One(_) => false,
            };
        means_something.then_some(format)
    }

    /// Validates the type of a value. A text or a list is accepted if the schema has a format, unless the format is one
    /// of numbers.
    fn kind(
        &self,
        value: &Value,
        types: Types<'_>,
        format: Option<&Format>,
        path: &Path<'_>,
    ) -> Result<(), FieldError> {
        let (kind, own_format) = match value {
            Value::Bool(_) => (SchemaType::Boolean, ""),
            Value::Str(_) => (SchemaType::String, ""),
            Value::Int(_) => (SchemaType::Integer, "int64"),
            Value::Float(_) => (SchemaType::Number, "float64"),
            Value::List(_) => (SchemaType::Array, ""),
            Value::Object(_) | Value::Raw(_) | Value::Null => (SchemaType::Object, ""),
        };
        let whole_number =
            matches!(value, Value::Float(n) if numbers::is_whole(*n)) && types.contains(&SchemaType::Integer);
        let fits =
            types.contains(&kind) || whole_number || kind == SchemaType::Integer && types.contains(&SchemaType::Number);
        if let Some(format) = format {
            let walked = matches!(kind, SchemaType::String | SchemaType::Array);
            if !walked && !fits && format.as_str() != own_format {
                return Err(self.wrong_type(path, format.as_str(), own_format));
            }
            if walked && !types.contains(&SchemaType::Number) && !types.contains(&SchemaType::Integer) {
                return Ok(());
            }
        }
        if fits { Ok(()) } else { Err(self.wrong_type(path, types.type_name(), kind.as_str())) }
    }

    // === allOf, anyOf, oneOf, not ===

    fn alternatives(&self, value: &Value, alternatives: &Alternatives, path: &Path<'_>, outcome: &mut Outcome) {
        let check = |schema: &Structural| self.node(value, schema, path, None);
        let quoted = || go_quote(&path.dotted());
        if !alternatives.any_of.is_empty() {
            match first_valid(alternatives.any_of.iter().map(|schema| check(schema))) {
                Ok(valid) => outcome.merge(valid),
                Err(best) => {
                    outcome.push(self.of_none(format!("{} must validate at least one schema (anyOf)", quoted())));
                    outcome.merge(best);
                }
            }
        }
        if !alternatives.one_of.is_empty() {
            let mut valid = 0;
            let mut first = None;
            let mut best: Option<Outcome> = None;
            for found in alternatives.one_of.iter().map(|schema| check(schema)) {
                if found.is_valid() {
                    valid += 1;
                    first = first.or(Some(found));
                } else if valid == 0 && best.as_ref().is_none_or(|best| found.matches > best.matches) {
                    best = Some(found);
                }
            }
            let message =
                |found: String| format!("{} must validate one and only one schema (oneOf). {found}", quoted());
            match (valid, first) {
                (1, Some(first)) => outcome.merge(first),
                (0, _) => {
                    outcome.push(self.of_none(message("Found none valid".to_owned())));
                    outcome.merge(best.unwrap_or_default());
                }
                (valid, _) => outcome.push(self.of_none(message(format!("Found {valid} valid alternatives")))),
            }
        }
        if !alternatives.all_of.is_empty() {
            let mut valid = 0;
            for found in alternatives.all_of.iter().map(|schema| check(schema)) {
                valid += usize::from(found.is_valid());
                outcome.merge(found);
            }
            if valid != alternatives.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.push(self.of_none(format!("{} must validate all the schemas (allOf){none}", quoted())));
            }
        }
        if let Some(not) = &alternatives.not
            && check(not).is_valid()
        {
            outcome.push(self.of_none(format!("{} must not validate the schema (not)", quoted())));
        }
    }

    // === Lists and objects ===

    fn list(
        &self,
        items: &[Value],
        schema: &Structural,
        path: &Path<'_>,
        change: Option<&CorrelatedObject<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(of_items) = schema.items.as_deref() {
            for (i, item) in items.iter().enumerate() {
                if outcome.is_full() {
                    break;
                }
                let change = change.and_then(|change| change.index(i));
                outcome.merge(self.below(item, of_items, &Path::Index(path, i), change));
            }
        }
        let Some(values) = schema.values.as_deref() else { return };
        let size = items.len() as i64;
        if let Some(min) = values.size(Size::MinItems).filter(|min| size < *min) {
            outcome.push(self.invalid(path, ErrorValue::from(size), &format!("should have at least {min} items")));
        }
        if let Some(max) = values.size(Size::MaxItems).filter(|max| size > *max) {
            outcome.push(too_many(&self.at(path), items.len(), max));
        }
        if values.unique_items && !repeated(items.iter()).is_empty() {
            outcome.push(self.invalid(path, ErrorValue::from(""), "shouldn't contain duplicates"));
        }
    }

    fn object(
        &self,
        object: &Object,
        schema: &Structural,
        path: &Path<'_>,
        change: Option<&CorrelatedObject<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(values) = schema.values.as_deref() {
            let size = object.len() as i64;
            if let Some(min) = values.size(Size::MinProperties).filter(|min| size < *min) {
                let message = format!("should have at least {min} properties");
                outcome.push(self.invalid(path, ErrorValue::from(size), &message));
            }
            if let Some(max) = values.size(Size::MaxProperties).filter(|max| size > *max) {
                outcome.push(too_many(&self.at(path), object.len(), max));
            }
        }
        for (name, value) in object.iter() {
            if outcome.is_full() {
                break;
            }
            if charge(2 + name.len() as u64 / 16).is_err() {
                break;
            }
            // The kind of an object cannot change on its own.
            let ratchets = !(matches!(path, Path::Root) && matches!(name.as_str(), "kind" | "apiVersion"));
            let change = || change.filter(|_| ratchets).and_then(|change| change.key(name));
            if let Some(property) = schema.property(name) {
                outcome.merge(self.below(value, property, &Path::Field(path, name), change()));
                continue;
            }
            match &schema.additional {
                AdditionalProperties::Schema(additional) => {
                    outcome.merge(self.below(value, additional, &Path::Key(path, name), change()));
                }
                AdditionalProperties::Any(false) => {
                    let message = format!("{}.{name} in body is a forbidden property", path.dotted());
                    outcome.push(FieldError::invalid(&self.at(path), name, message));
                }
                AdditionalProperties::Any(true) | AdditionalProperties::Unset => {}
            }
        }
        for name in schema.required() {
            charge_lookup(object, name);
            if charge(1).is_err() || outcome.is_full() {
                break;
            }
            if object.contains(name) {
                continue;
            }
            outcome.push(FieldError::required(&self.at(&Path::Key(path, name)), ""));
        }
    }

    // === Errors ===

    /// Returns the path of an error.
    fn at(&self, path: &Path<'_>) -> FieldPath {
        let dotted = path.dotted();
        let name = dotted.strip_prefix('.').unwrap_or(&dotted);
        if name.is_empty() { self.base.clone() } else { self.base.child(name) }
    }

    fn invalid(&self, path: &Path<'_>, value: ErrorValue, message: &str) -> FieldError {
        FieldError::invalid(&self.at(path), value, format!("{} in body {message}", path.dotted()))
    }

    /// Returns an error whose path is only in its text.
    fn of_none(&self, message: String) -> FieldError {
        FieldError::invalid(self.base, "", message)
    }

    /// `found` is the formatted value.
    fn wrong_type(&self, path: &Path<'_>, expected: &str, found: &str) -> FieldError {
        let message = format!("{} in body must be of type {expected}: {}", path.dotted(), go_quote(found));
        FieldError::type_invalid(&self.at(path), found, message)
    }

    fn enumeration(&self, value: &Value, values: Option<&Values>, path: &Path<'_>, outcome: &mut Outcome) {
        let Some(values) = values.filter(|values| !values.enumeration.is_empty()) else { return };
        if charge(values.enumeration.len() as u64).is_err() {
            return;
        }
        if values.enumeration.iter().any(|supported| scalars::is_listed(value, supported)) {
            return;
        }
        if charge(ERROR * values.enumeration.len() as u64).is_err() {
            return;
        }
        let texts: Vec<String> = values.enumeration.iter().map(scalars::listed).collect();
        outcome.push(FieldError::not_supported(&self.at(path), error_value(value), &texts));
    }
}

/// Returns the first valid outcome, or else the best match.
fn first_valid(outcomes: impl Iterator<Item = Outcome>) -> Result<Outcome, Outcome> {
    let mut best: Option<Outcome> = None;
    for outcome in outcomes {
        if outcome.is_valid() {
            return Ok(outcome);
        }
        if best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            best = Some(outcome);
        }
    }
    Err(best.unwrap_or_default())
}

fn too_many(path: &FieldPath, actual: usize, max: i64) -> FieldError {
    match usize::try_from(max) {
        Ok(max) => FieldError::too_many(path, actual, max),
        Err(_) => FieldError::too_many_without_bound(path, actual),
    }
}
