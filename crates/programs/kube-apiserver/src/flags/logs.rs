//! Flags for the log: its verbosity, format and outputs.

use std::str::FromStr;
use std::time::Duration;

use binnacle_meta::{GoDuration, Quantity, go_quote};

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Logs",
    flags: &[
        Flag::new(
            "log-flush-frequency",
            ValueKind::Value("duration"),
            "5s",
            "Maximum time between two flushes of buffered log messages, more than 0.",
        ),
        Flag::new("log-json-info-buffer-size", ValueKind::Value("quantity"), "0", BUFFER),
        Flag::new("log-json-split-stream", ValueKind::Bool, "", SPLIT),
        Flag::new("log-text-info-buffer-size", ValueKind::Value("quantity"), "0", BUFFER),
        Flag::new("log-text-split-stream", ValueKind::Bool, "", SPLIT),
        Flag::new("logging-format", ValueKind::Value("string"), "text", "Format of the log: \"text\" or \"json\"."),
        Flag::new(
            "v",
            ValueKind::Value("Level"),
            "0",
            "Log verbosity, a number from 0: 3 logs each request, 6 and above is for debugging the server.",
        )
        .short('v'),
        Flag::new(
            "vmodule",
            ValueKind::Value("pattern=N,..."),
            "",
            "Log verbosity of source files, as pattern=N, comma-separated: chain=6,filters/*=4. A pattern without a \
             slash matches the name of a file without its suffix. Only for the log format text.",
        ),
    ],
};

const SPLIT: &str = "In this log format, write errors and warnings to standard error and info messages to standard output. Needs the \
     feature gate LoggingAlphaOptions.";
const BUFFER: &str = "In this log format with split streams, buffer size of info messages in bytes, also as a quantity such as 1K or \
     2Ki. 0 turns buffering off. Needs the feature gate LoggingAlphaOptions.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A verbosity for some source files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) pattern: String,
    pub(crate) verbosity: u32,
}

/// The values of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    pub(crate) format: LogFormat,
    pub(crate) verbosity: u32,
    pub(crate) modules: Vec<Module>,
    /// True if lines other than errors go to standard output.
    pub(crate) split: bool,
    /// The size of the buffer for these lines in bytes; 0 for none.
    pub(crate) info_buffer: u64,
    pub(crate) flush_every: Duration,
}

/// The log before flags are read.
impl Default for Logs {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            verbosity: 0,
            modules: Vec::new(),
            split: false,
            info_buffer: 0,
            flush_every: Duration::from_secs(5),
        }
    }
}

impl Logs {
    /// `alpha` is true if the feature gate for alpha options is on.
    pub(super) fn read(flags: &FlagSet, alpha: bool) -> Result<Self, FlagError> {
        let verbosity = flags.parsed::<Verbosity>("v")?.0;
        let modules = modules(flags)?;
        let buffer = |name: &str| {
            let text = flags.all(name).pop().unwrap_or_default();
            let quantity = Quantity::parse(text).map_err(|error| flags.invalid(name, text, &error.to_string()))?;
            let bytes = quantity.value();
            Ok::<_, FlagError>((bytes != 0, u64::try_from(bytes).unwrap_or(0)))
        };
        let (text, json) = (buffer("log-text-info-buffer-size")?, buffer("log-json-info-buffer-size")?);
        let (text_split, json_split) = (flags.flag("log-text-split-stream")?, flags.flag("log-json-split-stream")?);

        let mut wrong = Vec::new();
        let flush_text = flags.all("log-flush-frequency").pop().unwrap_or_default();
        let flush_every = GoDuration::parse(flush_text)
            .map_err(|error| flags.invalid("log-flush-frequency", flush_text, &error.to_string()))?;
        if flush_every.nanos() <= 0 {
            let shown = go_quote(&flush_every.to_string());
            wrong.push(format!("flushFrequency: Invalid value: {shown}: Must be greater than zero"));
        }
        let format = match flags.text("logging-format").unwrap_or("text") {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                wrong.push(format!("format: Invalid value: {}: Unsupported log format", go_quote(other)));
                LogFormat::Text
            }
        };
        if !modules.is_empty() && flags.text("logging-format").is_some_and(|format| format != "text") {
            wrong.push("vmodule: Forbidden: Only supported for text log format".to_owned());
        }
        for (format, option, is_set) in [
            ("text", "splitStream", text_split),
            ("text", "infoBufferSize", text.0),
            ("json", "splitStream", json_split),
            ("json", "infoBufferSize", json.0),
        ] {
            if is_set && !alpha {
                wrong.push(format!("options.{format}.{option}: Forbidden: Feature LoggingAlphaOptions is disabled"));
            }
        }
        match wrong.as_slice() {
            [] => {}
            [one] => return Err(FlagError::new(one.clone())),
            several => return Err(FlagError::new(format!("[{}]", several.join(", ")))),
        }
        let (split, (_, info_buffer)) = match format {
            LogFormat::Text => (text_split, text),
            LogFormat::Json => (json_split, json),
        };
        let flush_every = Duration::from_nanos(u64::try_from(flush_every.nanos()).unwrap_or(u64::MAX));
        Ok(Self { format, verbosity, modules, split, info_buffer, flush_every })
    }
}

/// A verbosity that klog accepts: 31 bits.
pub(crate) struct Verbosity(pub(crate) u32);

impl FromStr for Verbosity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let why = |what: &str| format!("strconv.ParseUint: parsing {}: {what}", go_quote(text));
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(why("invalid syntax"));
        }
        text.parse::<u32>().ok().filter(|number| *number >> 31 == 0).map(Self).ok_or_else(|| why("value out of range"))
    }
}

fn modules(flags: &FlagSet) -> Result<Vec<Module>, FlagError> {
    let mut modules = Vec::new();
    for text in flags.all("vmodule") {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = |why: String| flags.invalid("vmodule", text, &why);
            let pair = part
                .split_once('=')
                .filter(|(pattern, number)| !pattern.is_empty() && !number.is_empty() && !number.contains('='));
            let (pattern, number) =
                pair.ok_or_else(|| wrong(format!("{} does not have the pattern=N format", go_quote(part))))?;
            let verbosity: Verbosity =
                number.parse().map_err(|why| wrong(format!("parsing verbosity in {}: {why}", go_quote(part))))?;
            modules.push(Module { pattern: pattern.to_owned(), verbosity: verbosity.0 });
        }
    }
    Ok(modules)
}
