//! Flags for the exposed metrics, and the allowed values of their labels.

use std::collections::{BTreeMap, HashMap};

use binnacle_features::Version;
use binnacle_meta::{go_quote, read_error};
use binnacle_metrics::ExposedOptions;
use binnacle_schema::{Limits, Value, yaml};

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Metrics",
    flags: &[
        Flag::new(
            "allow-metric-labels",
            ValueKind::Value("stringToString"),
            "",
            "Allowed values of a metric's label, as metric,label=value1,value2; all other values are recorded as \
             \"unexpected\". May be repeated.",
        ),
        Flag::new(
            "allow-metric-labels-manifest",
            ValueKind::Value("string"),
            "",
            "YAML file with the same settings: keys 'metric,label', values 'value1,value2'. Excludes \
             --allow-metric-labels.",
        ),
        Flag::new(
            "disabled-metrics",
            ValueKind::Value("strings"),
            "",
            "Metrics to disable, by their fully qualified names, comma-separated.",
        ),
        Flag::new(
            "show-hidden-metrics-for-version",
            ValueKind::Value("string"),
            "",
            "Show the metrics that are hidden since they were deprecated in the previous minor version. The only \
             value is that version, 1.35.",
        ),
    ],
};

const NAME: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

type Mapping = BTreeMap<String, String>;

pub(super) fn read(flags: &FlagSet) -> Result<ExposedOptions, FlagError> {
    let mapping = mapping_of_flag(flags)?;
    let manifest = flags.text("allow-metric-labels-manifest");
    let mut wrong = Vec::new();
    let hidden = flags.text("show-hidden-metrics-for-version");
    let before = Version::BINARY.previous().to_string();
    if let Some(version) = hidden.filter(|version| *version != before) {
        let version = go_quote(version);
        wrong.push(format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {version}: must be omitted or have the value '{before}'; only \
             the previous minor version is allowed"
        ));
    }
    let disabled = super::generic::list(flags, "disabled-metrics");
    if let Some(name) = disabled.iter().find(|name| !is_name(name)) {
        let shown = serde_json::json!(disabled);
        let (pattern, name) = (go_quote(&format!("^{NAME}$")), go_quote(name));
        wrong.push(format!(
            "metrics.disabledMetrics: Invalid value: {shown}: must be fully qualified metric names matching {pattern}, got {name}"
        ));
    }
    if let Some(mapping) = &mapping {
        wrong.extend(wrong_keys(mapping, "metrics.allowListMapping"));
    }
    let read = manifest.map(mapping_of_file).transpose();
    if let (Some(manifest), Err(why)) = (manifest, &read) {
        let manifest = go_quote(manifest);
        wrong.push(format!("metrics.allowListMappingManifest: Invalid value: {manifest}: {why}"));
    }
    if let (Some(mapping), Some(manifest)) = (&mapping, manifest) {
        let shown = serde_json::json!({ "allowListMapping": mapping, "allowListMappingManifest": manifest });
        wrong.push(format!(
            "metrics: Invalid value: {shown}: cannot specify both allowListMapping and allowListMappingManifest"
        ));
    }
    let mapping = match (wrong.as_slice(), read) {
        ([], Ok(read)) => mapping.or(read).unwrap_or_default(),
        ([one], _) => return Err(FlagError::new(one.clone())),
        (several, _) => return Err(FlagError::new(format!("[{}]", several.join(", ")))),
    };
    let mut allowed: HashMap<String, HashMap<_, _>> = HashMap::new();
    for (key, values) in &mapping {
        let (metric, label) = key.split_once(',').unwrap_or((key, ""));
        let values = values.split(',').map(str::to_owned).collect();
        allowed.entry(metric.to_owned()).or_default().insert(label.to_owned(), values);
    }
    let disabled = disabled.into_iter().map(str::to_owned).collect();
    Ok(ExposedOptions { disabled, show_hidden: hidden.is_some(), allowed })
}

/// Reads `--allow-metric-labels`. A value with one equals sign is one pair; with several it is a comma-separated list
/// of pairs.
fn mapping_of_flag(flags: &FlagSet) -> Result<Option<Mapping>, FlagError> {
    let name = "allow-metric-labels";
    if !flags.is_given(name) {
        return Ok(None);
    }
    let mut mapping = Mapping::new();
    for text in flags.all(name) {
        let wrong = |pair: &str| flags.invalid(name, text, &format!("{pair} must be formatted as key=value"));
        let pairs = match text.matches('=').count() {
            0 => return Err(wrong(text)),
            1 => vec![text.trim_matches('"').to_owned()],
            _ => fields(text),
        };
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| wrong(&pair))?;
            mapping.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(Some(mapping))
}

/// Splits a line at its commas; quotes keep a comma in its field.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

fn mapping_of_file(path: &str) -> Result<Mapping, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("failed to read allow list manifest: {}", read_error(path, &error)))?;
    let failed = |why: &str| format!("failed to parse allow list manifest: {why}");
    let (value, _) = yaml::parse(&bytes, &Limits::default()).map_err(|error| failed(&error.to_string()))?;
    let mut mapping = Mapping::new();
    match &value {
        Value::Null => {}
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                let text = match value {
                    Value::Str(text) => text.to_string(),
                    Value::Null => String::new(),
                    Value::Object(_) => {
                        return Err(failed("yaml: unmarshal errors: cannot unmarshal !!map into string"));
                    }
                    Value::List(_) => return Err(failed("yaml: unmarshal errors: cannot unmarshal !!seq into string")),
                    other => yaml::to_string(other).trim_end().to_owned(),
                };
                mapping.insert(key.to_string(), text);
            }
        }
        _ => return Err(failed("yaml: unmarshal errors: cannot unmarshal into map[string]string")),
    }
    match wrong_keys(&mapping, "metrics.allowListMappingManifest") {
        Some(why) => Err(format!("invalid allow list mapping in manifest: [{why}]")),
        None => Ok(mapping),
    }
}

fn wrong_keys(mapping: &Mapping, field: &str) -> Option<String> {
    let good = |key: &String| key.split_once(',').is_some_and(|(name, label)| is_name(name) && is_label(label));
    if mapping.keys().all(good) {
        return None;
    }
    let shown = serde_json::json!(mapping);
    let (name, label) = (go_quote(NAME), go_quote(LABEL));
    Some(format!(
        "{field}: Invalid value: {shown}: must have keys with format `metricName,labelName` where metricName matches {name} and \
         labelName matches {label}"
    ))
}

fn is_name(text: &str) -> bool {
    is_label(&text.replace(':', "_"))
}

fn is_label(text: &str) -> bool {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
