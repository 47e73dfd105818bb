//! The log: on standard error or split over both outputs, in klog's text format or as JSON, filtered by `--v` and
//! `--vmodule`.

mod early;
mod format;
mod levels;
mod output;

use std::sync::Arc;
use std::time::Duration;

use binnacle_server::DebugFlag;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::flags::{Logs, Module, Verbosity};

pub(crate) use early::EarlyWarnings;
pub(crate) use format::Errors;
use format::LogLayer;
use levels::Levels;
use output::Output;

/// A handle that changes the verbosity of the log and flushes it.
pub(crate) struct Logging {
    /// The verbosity; `/debug/flags/v` changes it.
    levels: Arc<Levels>,
    output: Arc<Output>,
}

/// Installs the log for all events from here on.
pub(crate) fn start(logs: &Logs) -> Logging {
    let levels = Arc::new(Levels::new(logs.verbosity, &logs.modules));
    let output = Arc::new(Output::new(logs.split, logs.info_buffer));
    if output.is_buffered() {
        flush_every(output.clone(), logs.flush_every);
    }
    let layer = LogLayer::new(logs.format, output.clone());
    // Fails only on a second call in the same process, and there is none.
    let _ = tracing_subscriber::registry().with(levels.clone().filter()).with(layer).try_init();
    Logging { levels, output }
}

impl Logging {
    /// Returns the flag `/debug/flags/v`.
    pub(crate) fn level_flag(&self) -> DebugFlag {
        let levels = self.levels.clone();
        DebugFlag::new("v", move |text| {
            let Verbosity(verbosity) = text.parse()?;
            levels.set(verbosity);
            Ok(format!("successfully set klog.logging.verbosity to {text}"))
        })
    }

    /// Returns a function that sets the verbosity of all files and of single files.
    pub(crate) fn setter(&self) -> impl Fn(u32, Vec<Module>) + Send + Sync + use<> {
        let levels = self.levels.clone();
        move |verbosity, modules| {
            levels.set_modules(modules);
            levels.set(verbosity);
        }
    }

    /// Writes the buffered lines.
    pub(crate) fn flush(&self) {
        self.output.flush();
    }
}

/// Flushes on its own thread: an output that blocks delays nothing else.
fn flush_every(output: Arc<Output>, interval: Duration) {
    let flusher = std::thread::Builder::new().name("log-flush".to_owned());
    let spawned = flusher.spawn(move || {
        loop {
            std::thread::sleep(interval);
            output.flush();
        }
    });
    if let Err(error) = spawned {
        eprintln!("failed to start the periodic flush of the log: {error}");
    }
}
