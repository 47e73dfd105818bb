//! Formats of log lines: klog's text, or the JSON of component-base.

use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Arc;

use binnacle_meta::go_quote;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::levels::verbosity_of;
use super::output::Output;
use crate::flags::LogFormat;

/// Writes events to the log.
pub(super) struct LogLayer {
    format: LogFormat,
    output: Arc<Output>,
    zone: TimeZone,
    process: u32,
}

impl LogLayer {
    pub(super) fn new(format: LogFormat, output: Arc<Output>) -> Self {
        Self { format, output, zone: TimeZone::system(), process: std::process::id() }
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut record = EventRecord::default();
        event.record(&mut record);
        let location =
            SourceLocation { file: metadata.file().unwrap_or_default(), line: metadata.line().unwrap_or_default() };
        let now = Timestamp::now();
        let line = match self.format {
            LogFormat::Text => {
                text(metadata.level(), &now.to_zoned(self.zone.clone()), self.process, location, &record)
            }
            LogFormat::Json => json(metadata.level(), now, location, &record),
        };
        self.output.write(line.as_bytes(), *metadata.level() >= Level::INFO);
    }
}

/// The source location of an event.
#[derive(Clone, Copy)]
struct SourceLocation<'a> {
    file: &'a str,
    line: u32,
}

/// The message and fields of an event.
#[derive(Default)]
struct EventRecord {
    message: String,
    fields: Vec<(&'static str, FieldValue)>,
}

/// The value of a field.
enum FieldValue {
    /// A number or a bool.
    Plain(String),
    Text(String),
    Errors(Vec<String>),
}

/// Errors that are logged together. JSON also has each of them in `errCauses`.
#[derive(Debug)]
pub(crate) struct Errors(pub(crate) Vec<String>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [one] => f.write_str(one),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl Error for Errors {}

impl EventRecord {
    fn push(&mut self, field: &Field, value: FieldValue) {
        match (field.name(), value) {
            ("message", FieldValue::Text(text) | FieldValue::Plain(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for EventRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, FieldValue::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, FieldValue::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.push(field, FieldValue::Text(value.to_string()));
        if let Some(Errors(errors)) = value.downcast_ref() {
            self.fields.push(("errCauses", FieldValue::Errors(errors.clone())));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, FieldValue::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, FieldValue::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, FieldValue::Plain(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, FieldValue::Plain(value.to_string()));
    }
}

/// Formats `I0102 15:04:05.000000       1 file.rs:12] message`, with a quoted message if there are fields.
fn text(level: &Level, now: &Zoned, process: u32, location: SourceLocation<'_>, record: &EventRecord) -> String {
    let severity = match *level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let mut line = String::with_capacity(64 + record.message.len());
    let micros = now.subsec_nanosecond() / 1000;
    let (month, day, hour, minute, second) = (now.month(), now.day(), now.hour(), now.minute(), now.second());
    let file = location.file.rsplit('/').next().unwrap_or(location.file);
    let at = location.line;
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "{severity}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {process:>7} {file}:{at}] "
    );
    if record.fields.is_empty() {
        line.push_str(&record.message);
    } else {
        line.push_str(&go_quote(&record.message));
        for (name, value) in &record.fields {
            if matches!(value, FieldValue::Errors(_)) {
                continue;
            }
            let _ = write!(line, " {name}=");
            match value {
                FieldValue::Errors(_) => {}
                FieldValue::Plain(plain) => line.push_str(plain),
                FieldValue::Text(text) if text.contains('\n') => {
                    line.push_str("<\n");
                    for part in text.trim_end_matches('\n').split('\n') {
                        let _ = writeln!(line, "\t{part}");
                    }
                    line.push_str(" >");
                }
                FieldValue::Text(text) => line.push_str(&go_quote(text)),
            }
        }
    }
    if !line.ends_with('\n') {
        line.push('\n');
    }
    line
}

/// Formats `{"ts":1136214245000.0,"caller":"server/chain.rs:12","msg":"message","v":0}`; errors have no `v`.
fn json(level: &Level, now: Timestamp, location: SourceLocation<'_>, record: &EventRecord) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let millis = now.as_nanosecond() as f64 / 1e6;
    // The file and its directory.
    let mut parts = location.file.rsplitn(3, '/');
    let name = parts.next().unwrap_or_default();
    let caller = match parts.next() {
        Some(directory) => format!("{directory}/{name}:{}", location.line),
        None => format!("{name}:{}", location.line),
    };
    let mut line = format!("{{\"ts\":{millis},\"caller\":{},\"msg\":{}", quoted(&caller), quoted(&record.message));
    if *level > Level::ERROR {
        let _ = write!(line, ",\"v\":{}", verbosity_of(level));
    }
    for (name, value) in &record.fields {
        let _ = match value {
            FieldValue::Plain(plain)
                if plain.parse::<f64>().is_ok_and(f64::is_finite) || plain == "true" || plain == "false" =>
            {
                write!(line, ",{}:{plain}", quoted(name))
            }
            FieldValue::Errors(errors) => {
                let causes: Vec<_> = errors.iter().map(|error| format!("{{\"error\":{}}}", quoted(error))).collect();
                write!(line, ",{}:[{}]", quoted(name), causes.join(","))
            }
            FieldValue::Plain(text) | FieldValue::Text(text) => write!(line, ",{}:{}", quoted(name), quoted(text)),
        };
    }
    line.push_str("}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: &str, fields: Vec<(&'static str, FieldValue)>) -> EventRecord {
        EventRecord { message: message.to_owned(), fields }
    }

    fn errors() -> Vec<(&'static str, FieldValue)> {
        let errors = vec!["one".to_owned(), "two".to_owned()];
        vec![("err", FieldValue::Text(Errors(errors.clone()).to_string())), ("errCauses", FieldValue::Errors(errors))]
    }

    const PLACE: SourceLocation<'static> = SourceLocation { file: "crates/server/src/chain.rs", line: 12 };

    #[test]
    fn formats_text_like_klog() {
        let now: Zoned = "2026-03-04T05:06:07.000089[UTC]".parse().unwrap();
        for (level, record, want) in [
            (
                Level::INFO,
                record("as it is \"said\"", Vec::new()),
                "I0304 05:06:07.000089     123 chain.rs:12] as it is \"said\"\n",
            ),
            (
                Level::WARN,
                record(
                    "quoted",
                    vec![
                        ("count", FieldValue::Plain("3".to_owned())),
                        ("path", FieldValue::Text("/a \"b\"".to_owned())),
                    ],
                ),
                "W0304 05:06:07.000089     123 chain.rs:12] \"quoted\" count=3 path=\"/a \\\"b\\\"\"\n",
            ),
            (
                Level::ERROR,
                record("lines", vec![("err", FieldValue::Text("one\ntwo\n".to_owned()))]),
                "E0304 05:06:07.000089     123 chain.rs:12] \"lines\" err=<\n\tone\n\ttwo\n >\n",
            ),
            (
                Level::ERROR,
                record("command failed", errors()),
                "E0304 05:06:07.000089     123 chain.rs:12] \"command failed\" err=\"[one, two]\"\n",
            ),
        ] {
            assert_eq!(text(&level, &now, 123, PLACE, &record), want);
        }
    }

    #[test]
    fn formats_json_like_component_base() {
        let now: Timestamp = "2026-03-04T05:06:07.0005Z".parse().unwrap();
        for (level, record, want) in [
            (
                Level::DEBUG,
                record(
                    "a \"b\"",
                    vec![("n", FieldValue::Plain("3".to_owned())), ("s", FieldValue::Text("x\ny".to_owned()))],
                ),
                "{\"ts\":1772600767000.5,\"caller\":\"src/chain.rs:12\",\"msg\":\"a \\\"b\\\"\",\"v\":3,\"n\":3,\"s\":\"x\\ny\"}\n",
            ),
            (
                Level::ERROR,
                record("command failed", errors()),
                "{\"ts\":1772600767000.5,\"caller\":\"src/chain.rs:12\",\"msg\":\"command failed\",\"err\":\"[one, two]\",\
                 \"errCauses\":[{\"error\":\"one\"},{\"error\":\"two\"}]}\n",
            ),
            (
                Level::ERROR,
                record("e", vec![("nan", FieldValue::Plain("NaN".to_owned()))]),
                "{\"ts\":1772600767000.5,\"caller\":\"src/chain.rs:12\",\"msg\":\"e\",\"nan\":\"NaN\"}\n",
            ),
        ] {
            let line = json(&level, now, PLACE, &record);
            assert_eq!(line, want);
            serde_json::from_str::<serde_json::Value>(&line).unwrap();
        }
    }
}
