//! A backend that writes events as lines to a file or standard output.

mod rotate;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use binnacle_request::BoxFuture;
use parking_lot::Mutex;

use crate::event::{encode_line, legacy_line};
use crate::metrics::Metrics;
use crate::{Backend, Event, LogFormat, LogOptions};

use rotate::RotatingFile;

const PLUGIN: &str = "log";

/// A log file, or standard output. Each event is written immediately, under a lock, so that lines never interleave.
/// When [`Backend::process`] returns, the bytes may still only be in the kernel's page cache, as with kube-apiserver.
pub(crate) struct Log {
    out: Mutex<Sink>,
    format: LogFormat,
    metrics: Metrics,
}

enum Sink {
    Stdout,
    File(RotatingFile),
}

impl Log {
    /// Opens the log. The file and its directory are created if they do not exist.
    pub(crate) fn open(options: &LogOptions, metrics: Metrics) -> std::io::Result<Self> {
        let out = if options.path == Path::new("-") { Sink::Stdout } else { Sink::File(RotatingFile::open(options)?) };
        Ok(Self { out: Mutex::new(out), format: options.format, metrics })
    }

    fn write(&self, event: &Event) -> std::io::Result<()> {
        let mut line = Vec::with_capacity(1024);
        match self.format {
            LogFormat::Json => encode_line(event, &mut line),
            LogFormat::Legacy => {
                line.extend_from_slice(legacy_line(event).as_bytes());
                line.push(b'\n');
            }
        }
        match &mut *self.out.lock() {
            Sink::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(&line).and_then(|()| out.flush())
            }
            Sink::File(file) => file.write_line(&line),
        }
    }
}

impl Backend for Log {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        let mut accepted = true;
        for event in events {
            if let Err(error) = self.write(&event) {
                self.metrics.failed(PLUGIN, &error.to_string(), &[event]);
                accepted = false;
            }
        }
        Box::pin(std::future::ready(accepted))
    }

    fn name(&self) -> String {
        PLUGIN.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::full_event;
    use crate::options::tests::log_options;

    #[tokio::test]
    async fn writes_a_line_per_event_in_both_formats() {
        let directory = tempfile::tempdir().unwrap();
        for (format, begins) in [(LogFormat::Json, "{\"kind\":\"Event\""), (LogFormat::Legacy, "2023-11-14T22:13:20")] {
            let path = directory.path().join("new").join(begins.len().to_string());
            let log = Log::open(&LogOptions { format, ..log_options(&path) }, Metrics::fresh()).unwrap();
            assert!(log.process(vec![Arc::new(full_event()), Arc::new(full_event())]).await);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().filter(|line| line.starts_with(begins)).count(), 2, "{text}");
        }
    }

    /// Writes to `/dev/full` fail as on a full disk.
    #[tokio::test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
    async fn counts_events_lost_to_a_full_disk() {
        let full_disk = Path::new("/dev/full");
        let metrics = Metrics::fresh();
        let options = LogOptions { max_size_mb: 0, ..log_options(full_disk) };
        let log = Log::open(&options, metrics.clone()).unwrap();
        assert!(!log.process(vec![Arc::new(full_event()), Arc::new(full_event())]).await);
        assert_eq!(metrics.errors("log"), 2);
    }
}
