//! Flags for auditing: the policy and the backends of events.

use binnacle_audit::{
    AuditOptions, BatchOptions, LogFormat, LogOptions, Mode, SpillOptions, TruncateOptions, WebhookOptions,
};
use binnacle_meta::{GroupVersion, go_quote};

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

const BUFFER_SIZE: &str =
    "Maximum number of events that wait to be batched; further events are dropped and counted. Only in batch mode.";
const MAX_SIZE: &str = "Maximum number of events in a batch. Only in batch mode.";
const MAX_WAIT: &str = "Maximum time that an event waits for its batch to fill up. Only in batch mode.";
const BURST: &str =
    "Maximum number of batches that are sent at once after a time without any. Only in batch mode, with throttling.";
const THROTTLE: &str = "Throttle batches to a rate (throttle-qps) and a burst (throttle-burst). Only in batch mode.";
const QPS: &str = "Maximum average number of batches per second. Only in batch mode, with throttling.";
const MODE: &str = "Mode of sending events: batch (asynchronous, in batches), blocking (a response waits for its events), or \
     blocking-strict (also, a request is rejected if its event of the stage RequestReceived cannot be recorded).";
const TRUNCATE: &str = "Truncate events and split batches that exceed the maximum sizes.";
const MAX_BATCH_BYTES: &str =
    "Maximum size of a batch in bytes, at least that of an event; larger batches are split. Only with truncation.";
const MAX_EVENT_BYTES: &str = "Maximum size of an event in bytes. Larger events lose their request and response objects, and are dropped if \
     they are still too large. Only with truncation.";
const VERSION: &str = "API group and version of events. The only one is audit.k8s.io/v1.";

pub(super) const GROUP: Group = Group {
    title: "Auditing",
    flags: &[
        Flag::new("audit-log-batch-buffer-size", ValueKind::Value("int"), "10000", BUFFER_SIZE),
        Flag::new("audit-log-batch-max-size", ValueKind::Value("int"), "1", MAX_SIZE),
        Flag::new("audit-log-batch-max-wait", ValueKind::Value("duration"), "0s", MAX_WAIT),
        Flag::new("audit-log-batch-throttle-burst", ValueKind::Value("int"), "0", BURST),
        Flag::new("audit-log-batch-throttle-enable", ValueKind::Bool, "", THROTTLE),
        Flag::new("audit-log-batch-throttle-qps", ValueKind::Value("float32"), "0", QPS),
        Flag::new("audit-log-compress", ValueKind::Bool, "", "Compress rotated audit log files with gzip."),
        Flag::new(
            "audit-log-format",
            ValueKind::Value("string"),
            "json",
            "Format of audit events in the log: \"json\", or \"legacy\" for one line of text per event.",
        ),
        Flag::new(
            "audit-log-maxage",
            ValueKind::Value("int"),
            "366",
            "Maximum number of days to retain rotated audit log files, by the timestamp in their names. 0 means no \
             limit.",
        ),
        Flag::new(
            "audit-log-maxbackup",
            ValueKind::Value("int"),
            "100",
            "Maximum number of rotated audit log files to retain. 0 means no limit.",
        ),
        Flag::new(
            "audit-log-maxsize",
            ValueKind::Value("int"),
            "100",
            "Maximum size in megabytes of the audit log file before it is rotated. 0 turns rotation off.",
        ),
        Flag::new("audit-log-mode", ValueKind::Value("string"), "blocking", MODE),
        Flag::new(
            "audit-log-path",
            ValueKind::Value("string"),
            "",
            "File of the audit log backend, which records the events selected by --audit-policy-file; '-' means \
             standard output. If not set, the backend is off.",
        ),
        Flag::new("audit-log-truncate-enabled", ValueKind::Bool, "", TRUNCATE),
        Flag::new("audit-log-truncate-max-batch-size", ValueKind::Value("int"), "10485760", MAX_BATCH_BYTES),
        Flag::new("audit-log-truncate-max-event-size", ValueKind::Value("int"), "102400", MAX_EVENT_BYTES),
        Flag::new("audit-log-version", ValueKind::Value("string"), "audit.k8s.io/v1", VERSION),
        Flag::new(
            "audit-policy-file",
            ValueKind::Value("string"),
            "",
            "File with the audit policy: which requests are audited, and at which level. If not set, none are.",
        ),
        Flag::new("audit-webhook-batch-buffer-size", ValueKind::Value("int"), "10000", BUFFER_SIZE),
        Flag::new(
            "audit-webhook-batch-initial-backoff",
            ValueKind::Value("duration"),
            "10s",
            "DEPRECATED: use --audit-webhook-initial-backoff.",
        ),
        Flag::new("audit-webhook-batch-max-size", ValueKind::Value("int"), "400", MAX_SIZE),
        Flag::new("audit-webhook-batch-max-wait", ValueKind::Value("duration"), "30s", MAX_WAIT),
        Flag::new("audit-webhook-batch-throttle-burst", ValueKind::Value("int"), "15", BURST),
        Flag::new("audit-webhook-batch-throttle-enable", ValueKind::Bool, "true", THROTTLE),
        Flag::new("audit-webhook-batch-throttle-qps", ValueKind::Value("float32"), "10", QPS),
        Flag::new(
            "audit-webhook-config-file",
            ValueKind::Value("string"),
            "",
            "File in kubeconfig format that configures the audit webhook backend, to which events are sent.",
        ),
        Flag::new(
            "audit-webhook-initial-backoff",
            ValueKind::Value("duration"),
            "10s",
            "Time to wait before the first retry of a failed call of the audit webhook.",
        ),
        Flag::new("audit-webhook-mode", ValueKind::Value("string"), "batch", MODE),
        Flag::new(
            "audit-webhook-spill-dir",
            ValueKind::Value("string"),
            "",
            "Directory for events that exceed --audit-webhook-batch-buffer-size and for batches that the webhook \
             rejects. They are sent later, also after a restart. If not set, they are dropped. Only in batch mode.",
        ),
        Flag::new(
            "audit-webhook-spill-max-size",
            ValueKind::Value("int"),
            "1024",
            "Maximum size of --audit-webhook-spill-dir in megabytes, at least 1. Further events are dropped and \
             counted.",
        ),
        Flag::new("audit-webhook-truncate-enabled", ValueKind::Bool, "", TRUNCATE),
        Flag::new("audit-webhook-truncate-max-batch-size", ValueKind::Value("int"), "10485760", MAX_BATCH_BYTES),
        Flag::new("audit-webhook-truncate-max-event-size", ValueKind::Value("int"), "102400", MAX_EVENT_BYTES),
        Flag::new("audit-webhook-version", ValueKind::Value("string"), "audit.k8s.io/v1", VERSION),
    ],
};

pub(super) fn read(flags: &FlagSet) -> Result<AuditOptions, FlagError> {
    Ok(AuditOptions {
        policy_file: flags.text("audit-policy-file").map(Into::into),
        log: flags.text("audit-log-path").map(|path| log(flags, path)).transpose()?,
        webhook: flags.text("audit-webhook-config-file").map(|file| webhook(flags, file)).transpose()?,
    })
}

fn log(flags: &FlagSet, path: &str) -> Result<LogOptions, FlagError> {
    let (mode, batch, truncate) = common(flags, "log")?;
    let format = flags.text("audit-log-format").unwrap_or_default();
    let parsed = LogFormat::parse(format).ok_or_else(|| {
        let allowed = go_quote(LogFormat::ALLOWED);
        FlagError::new(format!("invalid audit log format {format}, allowed formats are {allowed}"))
    })?;
    let positive = |name: &str| {
        let number = flags.integer(name)?;
        u64::try_from(number).map_err(|_| FlagError::new(format!("--{name} {number} can't be a negative number")))
    };
    Ok(LogOptions {
        path: path.into(),
        max_age_days: positive("audit-log-maxage")?,
        max_backups: usize::try_from(positive("audit-log-maxbackup")?).unwrap_or(usize::MAX),
        max_size_mb: positive("audit-log-maxsize")?,
        format: parsed,
        compress: flags.flag("audit-log-compress")?,
        mode,
        batch,
        truncate,
    })
}

fn webhook(flags: &FlagSet, file: &str) -> Result<WebhookOptions, FlagError> {
    let (mode, batch, truncate) = common(flags, "webhook")?;
    let former = flags.duration("audit-webhook-batch-initial-backoff")?;
    let initial_backoff = flags.duration("audit-webhook-initial-backoff")?;
    let is_former =
        flags.is_given("audit-webhook-batch-initial-backoff") && !flags.is_given("audit-webhook-initial-backoff");
    let initial_backoff = if is_former { former } else { initial_backoff };
    let spill = flags.text("audit-webhook-spill-dir").map(|directory| spill(flags, directory, mode)).transpose()?;
    Ok(WebhookOptions { config_file: file.into(), initial_backoff, mode, batch, truncate, dialer: None, spill })
}

/// Reads the settings of the spill directory, which only batch mode has.
fn spill(flags: &FlagSet, directory: &str, mode: Mode) -> Result<SpillOptions, FlagError> {
    if mode != Mode::Batch {
        return Err(FlagError::new("--audit-webhook-spill-dir requires --audit-webhook-mode=batch"));
    }
    let megabytes = flags.integer("audit-webhook-spill-max-size")?;
    let positive = u64::try_from(megabytes).ok().filter(|megabytes| *megabytes > 0).ok_or_else(|| {
        FlagError::new(format!("--audit-webhook-spill-max-size {megabytes} must be a positive number"))
    })?;
    Ok(SpillOptions { directory: directory.into(), max_bytes: positive.saturating_mul(1 << 20) })
}

/// Reads the flags of either backend. Settings of a mode that is not chosen are not validated, as in kube-apiserver.
fn common(flags: &FlagSet, plugin: &str) -> Result<(Mode, BatchOptions, TruncateOptions), FlagError> {
    let name = |rest: &str| format!("audit-{plugin}-{rest}");
    let integer = |rest: &str| flags.integer(&name(rest));
    let text = flags.text(&name("mode")).unwrap_or_default();
    let mode = Mode::parse(text).ok_or_else(|| {
        let allowed = go_quote(Mode::ALLOWED);
        FlagError::new(format!("invalid audit {plugin} mode {text}, allowed modes are {allowed}"))
    })?;
    let (buffer_size, max_batch_size) = (integer("batch-buffer-size")?, integer("batch-max-size")?);
    let throttle_enable = flags.flag(&name("batch-throttle-enable"))?;
    let (throttle_qps, throttle_burst) = (flags.float(&name("batch-throttle-qps"))?, integer("batch-throttle-burst")?);
    let max_batch_wait = flags.duration(&name("batch-max-wait"))?;
    let refuse = |what: &str, value: &dyn std::fmt::Display| {
        FlagError::new(format!("invalid audit batch {plugin} {what} {value}, must be a positive number"))
    };
    if mode == Mode::Batch {
        if buffer_size <= 0 {
            return Err(refuse("buffer size", &buffer_size));
        }
        if max_batch_size <= 0 {
            return Err(refuse("max batch size", &max_batch_size));
        }
        if throttle_enable && throttle_qps.is_nan() | (throttle_qps <= 0.0) {
            return Err(refuse("throttle QPS", &throttle_qps));
        }
        if throttle_enable && throttle_burst <= 0 {
            return Err(refuse("throttle burst", &throttle_burst));
        }
    }
    let (event_bytes, batch_bytes) = (integer("truncate-max-event-size")?, integer("truncate-max-batch-size")?);
    if event_bytes <= 0 {
        return Err(FlagError::new(format!(
            "invalid audit truncate {plugin} max event size {event_bytes}, must be a positive number"
        )));
    }
    if batch_bytes < event_bytes {
        return Err(FlagError::new(format!(
            "invalid audit truncate {plugin} max batch size {batch_bytes}, must be greater than max event size ({event_bytes})"
        )));
    }
    check_version(flags.text(&name("version")).unwrap_or_default())?;
    let size = |number: i64| usize::try_from(number).unwrap_or_default();
    let batch = BatchOptions {
        buffer_size: size(buffer_size),
        max_batch_size: size(max_batch_size),
        max_batch_wait,
        throttle_enable,
        throttle_qps,
        throttle_burst: size(throttle_burst),
    };
    let enabled = flags.flag(&name("truncate-enabled"))?;
    let truncate = TruncateOptions { enabled, max_event_size: size(event_bytes), max_batch_size: size(batch_bytes) };
    Ok((mode, batch, truncate))
}

fn check_version(text: &str) -> Result<(), FlagError> {
    if GroupVersion::parse(text).is_none() {
        return Err(FlagError::new(format!("unexpected GroupVersion string: {text}")));
    }
    if text != "audit.k8s.io/v1" {
        return Err(FlagError::new("invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"));
    }
    Ok(())
}
