//! The log: on standard error, as text or JSON, as much of it as `--v` asks for.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::flags::{LogFormat, Logs};

/// Sends events to standard error from here on.
pub(crate) fn start(logs: &Logs) {
    let registry = tracing_subscriber::registry().with(levels(logs.verbosity));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Only a second call in the same process could fail, and there is none.
    let _ = match logs.format {
        LogFormat::Text => registry.with(layer.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
}

/// Kubernetes' levels are numbers: up to 2 is what one wants to see all the time, 3 and 4 show each request, 6 and above
/// are for debugging the server itself. Libraries are one step quieter.
fn levels(verbosity: u8) -> Targets {
    let (own, others) = match verbosity {
        0..=2 => (LevelFilter::INFO, LevelFilter::WARN),
        3..=5 => (LevelFilter::DEBUG, LevelFilter::INFO),
        _ => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    Targets::new()
        .with_default(others)
        .with_target("binnacle", own)
        .with_target("kube_apiserver", own)
        .with_target("http", own)
}
