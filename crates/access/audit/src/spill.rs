//! Spill files: events that do not fit into the queue are written to files until the webhook accepts them.
//!
//! Files are numbered and have one event per line. A file is removed once all its events are sent. After a shutdown in
//! between it is sent again from the start: events may be delivered twice, but none is lost.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use binnacle_metrics::{IntCounter, IntGauge, families};
use binnacle_request::BoxFuture;
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::Event;
use crate::event::encode_item;

/// The maximum number of events queued for the writer; events are lost if the disk is slower than that.
const WRITER_QUEUE: usize = 1024;
/// The maximum size of a file, unless the limit of all files is less than eight times as much.
const FILE_BYTES: u64 = 8 << 20;
/// The delay after a failure, which doubles up to a maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The directory of the files and its size limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillOptions {
    pub directory: PathBuf,
    /// The maximum size of all files together, in bytes.
    pub max_bytes: u64,
}

/// The destination of spilled events.
pub(crate) trait ReplaySink: Send + Sync + 'static {
    /// Returns true if all events were accepted.
    fn replay<'a>(&'a self, events: &'a [Vec<u8>]) -> BoxFuture<'a, bool>;
}

/// The spill files, and the thread that writes them.
pub(crate) struct Spill {
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    sender: Mutex<Option<AbortHandle>>,
    files: Arc<SpillDirectory>,
}

struct SpillDirectory {
    directory: PathBuf,
    max_bytes: u64,
    file_bytes: u64,
    state: Mutex<State>,
    /// Notified when there is something to send.
    written: Notify,
    metrics: SpillMetrics,
}

#[derive(Default)]
struct State {
    /// Complete files, the oldest first.
    complete: VecDeque<SpillFile>,
    open: Option<(File, SpillFile)>,
    /// The number of the last file.
    last: u64,
    bytes: u64,
    /// True while events are being lost, so that this is logged only once.
    is_losing: bool,
}

/// A file and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpillFile {
    number: u64,
    bytes: u64,
}

families! {
    /// The counters of spilled events.
    #[derive(Clone)]
    pub(crate) struct SpillMetrics {
        spilled: IntCounter = "binnacle_audit_spilled_events_total",
            "[ALPHA] Counter of audit events that were written to --audit-webhook-spill-dir.";
        sent: IntCounter = "binnacle_audit_spill_sent_events_total",
            "[ALPHA] Counter of audit events from --audit-webhook-spill-dir that were sent.";
        dropped: IntCounter = "binnacle_audit_spill_dropped_events_total",
            "[ALPHA] Counter of audit events that were lost because --audit-webhook-spill-dir was full or failed.";
        bytes: IntGauge = "binnacle_audit_spill_bytes",
            "[ALPHA] Size of the files in --audit-webhook-spill-dir.";
    }
}

// === impl Spill ===

impl Spill {
    /// Opens the directory, including the files of earlier processes.
    pub(crate) fn open(options: &SpillOptions, metrics: SpillMetrics) -> io::Result<Self> {
        let files = Arc::new(SpillDirectory::open(options, metrics)?);
        let (lines, received) = sync_channel(WRITER_QUEUE);
        let writing = files.clone();
        let writer =
            std::thread::Builder::new().name("audit-spill".to_owned()).spawn(move || write_all(&writing, &received))?;
        Ok(Self { lines: Mutex::new(Some(lines)), writer: Mutex::new(Some(writer)), sender: Mutex::default(), files })
    }

    /// Spawns a task on the current runtime that sends the events in the files, in batches.
    pub(crate) fn send_to(&self, receiver: Arc<dyn ReplaySink>, batch: usize) {
        let files = self.files.clone();
        let task = tokio::spawn(supervise("audit spill", move || send(files.clone(), receiver.clone(), batch)));
        *self.sender.lock() = Some(task.abort_handle());
    }

    /// Stores events, and returns those that were lost.
    pub(crate) fn store<'e>(&self, events: &'e [Arc<Event>]) -> &'e [Arc<Event>] {
        let lines = self.lines.lock();
        for (at, event) in events.iter().enumerate() {
            let mut line = Vec::with_capacity(1024);
            encode_item(event, &mut line);
            line.push(b'\n');
            match lines.as_ref().map(|lines| lines.try_send(line)) {
                Some(Ok(())) => {}
                Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => {
                    self.files.metrics.dropped.inc_by((events.len() - at) as u64);
                    return &events[at..];
                }
            }
        }
        &[]
    }

    /// Waits until all stored events are written. No further events are stored or sent.
    pub(crate) async fn close(&self) {
        if let Some(sender) = self.sender.lock().take() {
            sender.abort();
        }
        self.lines.lock().take();
        let writer = self.writer.lock().take();
        let ended = tokio::task::spawn_blocking(move || writer.map(JoinHandle::join)).await;
        if !matches!(ended, Ok(None | Some(Ok(())))) {
            tracing::error!("the writer of spilled audit events stopped");
        }
    }
}

/// Writes lines until the channel is closed.
fn write_all(files: &SpillDirectory, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        match files.append(&line) {
            Ok(()) => files.metrics.spilled.inc(),
            Err(error) => {
                files.metrics.dropped.inc();
                if !std::mem::replace(&mut files.state.lock().is_losing, true) {
                    tracing::error!(
                        directory = %files.directory.display(), %error, "audit events are dropped"
                    );
                }
            }
        }
    }
}

/// Sends the files, the oldest first, until the server exits.
async fn send(files: Arc<SpillDirectory>, receiver: Arc<dyn ReplaySink>, batch: usize) {
    loop {
        let Some(oldest) = files.oldest() else {
            files.written.notified().await;
            continue;
        };
        let path = files.path(oldest.number);
        let read = tokio::task::spawn_blocking(move || fs::read(path)).await.map_err(io::Error::other);
        let text = match read.and_then(std::convert::identity) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(file = %files.path(oldest.number).display(), %error, "failed to read spilled audit events");
                files.forget(oldest);
                continue;
            }
        };
        // The last line may be incomplete if an earlier process was killed.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
        for events in events.chunks(batch.max(1)) {
            let mut pause = FIRST_PAUSE;
            while !receiver.replay(events).await {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            files.metrics.sent.inc_by(events.len() as u64);
        }
        files.remove(oldest);
    }
}

// === impl SpillDirectory ===

impl SpillDirectory {
    fn open(options: &SpillOptions, metrics: SpillMetrics) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&options.directory)?;
        let mut complete = Vec::new();
        for entry in fs::read_dir(&options.directory)? {
            let entry = entry?;
            if let Some(number) = parse_file_number(&entry.file_name().to_string_lossy()) {
                complete.push(SpillFile { number, bytes: entry.metadata()?.len() });
            }
        }
        complete.sort_by_key(|file| file.number);
        let bytes = complete.iter().map(|file| file.bytes).sum();
        let last = complete.last().map_or(0, |file| file.number);
        let state = State { complete: complete.into(), last, bytes, ..State::default() };
        let files = Self {
            directory: options.directory.clone(),
            max_bytes: options.max_bytes,
            file_bytes: FILE_BYTES.min(options.max_bytes / 8),
            state: Mutex::new(state),
            written: Notify::new(),
            metrics,
        };
        files.report_size(bytes);
        Ok(files)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("audit-{number:020}.jsonl"))
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let size = line.len() as u64;
        if state.bytes + size > self.max_bytes {
            return Err(io::Error::other(format!("{} bytes is the limit", self.max_bytes)));
        }
        let (mut file, mut written) = match state.open.take() {
            Some(open) => open,
            None => {
                state.last += 1;
                let number = state.last;
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(number))?;
                (file, SpillFile { number, bytes: 0 })
            }
        };
        let appended = file.write_all(line);
        if appended.is_err() {
            // If this fails, the partial line is skipped when the file is read.
            let _ = file.set_len(written.bytes);
        } else {
            written.bytes += size;
            state.bytes += size;
            state.is_losing = false;
        }
        if written.bytes >= self.file_bytes || appended.is_err() {
            state.complete.push_back(written);
        } else {
            state.open = Some((file, written));
        }
        let bytes = state.bytes;
        drop(state);
        self.report_size(bytes);
        self.written.notify_one();
        appended
    }

    /// Returns the oldest complete file.
    fn oldest(&self) -> Option<SpillFile> {
        let mut state = self.state.lock();
        if state.complete.is_empty()
            && let Some((_, written)) = state.open.take()
        {
            state.complete.push_back(written);
        }
        state.complete.front().copied()
    }

    fn remove(&self, file: SpillFile) {
        if let Err(error) = fs::remove_file(self.path(file.number)) {
            tracing::error!(file = %self.path(file.number).display(), %error, "failed to remove spilled audit events that were sent");
        }
        self.forget(file);
    }

    fn forget(&self, file: SpillFile) {
        let mut state = self.state.lock();
        state.complete.retain(|other| *other != file);
        state.bytes = state.bytes.saturating_sub(file.bytes);
        let bytes = state.bytes;
        drop(state);
        self.report_size(bytes);
    }

    fn report_size(&self, bytes: u64) {
        self.metrics.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Returns the number in a file name.
fn parse_file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::event::tests::full_event;

    fn options(directory: &Path, max_bytes: u64) -> SpillOptions {
        SpillOptions { directory: directory.join("spill"), max_bytes }
    }

    fn metrics() -> SpillMetrics {
        SpillMetrics::build().unwrap()
    }

    fn event(id: usize) -> Arc<Event> {
        Arc::new(Event { audit_id: id.to_string().into(), ..full_event() })
    }

    /// A sink that accepts events while it is open.
    #[derive(Default)]
    struct Server {
        open: AtomicBool,
        accepted: Mutex<Vec<Vec<String>>>,
    }

    impl ReplaySink for Server {
        fn replay<'a>(&'a self, events: &'a [Vec<u8>]) -> BoxFuture<'a, bool> {
            Box::pin(async move {
                let open = self.open.load(Ordering::SeqCst);
                if open {
                    let id = |event: &Vec<u8>| {
                        let event: serde_json::Value = serde_json::from_slice(event).unwrap();
                        event["auditID"].as_str().unwrap().to_owned()
                    };
                    self.accepted.lock().push(events.iter().map(id).collect());
                }
                open
            })
        }
    }

    async fn wait_until(description: &str, condition: impl Fn() -> bool) {
        for _ in 0..30_000 {
            if condition() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("waited in vain: {description}");
    }

    #[tokio::test]
    async fn sends_spilled_events_later_and_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), 1 << 20);
        let first = metrics();
        let spill = Spill::open(&options, first.clone()).unwrap();
        assert!(spill.store(&(0..5).map(event).collect::<Vec<_>>()).is_empty());
        spill.close().await;
        assert_eq!((first.spilled.get(), first.dropped.get()), (5, 0));
        assert!(!spill.store(&[event(9)]).is_empty(), "it is closed");
        // A process that was killed may leave a partial line.
        let left = fs::read_dir(&options.directory).unwrap().next().unwrap().unwrap().path();
        let mut file = OpenOptions::new().append(true).open(&left).unwrap();
        file.write_all(b"{\"auditID\":\"cut").unwrap();

        let second = metrics();
        let spill = Spill::open(&options, second.clone()).unwrap();
        assert_eq!(second.bytes.get() as u64, fs::metadata(&left).unwrap().len());
        let server = Arc::new(Server::default());
        server.open.store(true, Ordering::SeqCst);
        spill.send_to(server.clone(), 2);
        wait_until("the old events", || second.sent.get() == 5).await;
        spill.store(&[event(5)]);
        wait_until("a new event", || second.sent.get() == 6).await;
        wait_until("no file", || fs::read_dir(&options.directory).unwrap().next().is_none()).await;
        let accepted: Vec<Vec<String>> = server.accepted.lock().clone();
        assert_eq!(accepted, [vec!["0", "1"], vec!["2", "3"], vec!["4"], vec!["5"]]);
        wait_until("no bytes", || second.bytes.get() == 0).await;
        spill.close().await;
    }

    #[tokio::test]
    async fn counts_events_lost_to_a_full_directory() {
        let directory = tempfile::tempdir().unwrap();
        let metrics = metrics();
        let mut line = Vec::new();
        encode_item(&event(0), &mut line);
        let options = options(directory.path(), 20 * (line.len() as u64 + 1));
        let spill = Spill::open(&options, metrics.clone()).unwrap();
        spill.store(&(10..40).map(event).collect::<Vec<_>>());
        spill.close().await;
        let kept = metrics.spilled.get();
        assert!((18..=20).contains(&kept) && kept + metrics.dropped.get() == 30, "{kept}");
        assert!(metrics.bytes.get() as u64 <= options.max_bytes);
        assert!(fs::read_dir(&options.directory).unwrap().count() > 1, "several files");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&options.directory).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }
}
