//! The file system calls of a real process, and the files that a power failure at any of these calls could leave.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::seccomp;
use super::work::Rng;

const SCRIPT: &str = include_str!("recorder.py");
/// The unit in which unsynced bytes reach the disk.
const PAGE: usize = 4096;

/// The calls of a process in order.
pub(crate) struct Recording {
    calls: Vec<Call>,
}

struct Call {
    thread: u64,
    kind: CallKind,
}

enum CallKind {
    Print(String),
    Create {
        name: String,
    },
    Rename {
        name: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncDir,
    Write {
        file: u64,
        name: String,
        at: u64,
        bytes: Vec<u8>,
    },
    /// The file has this size, or at least this size.
    Size {
        file: u64,
        name: String,
        to: u64,
        at_least: bool,
    },
    Sync {
        file: u64,
    },
}

// === impl Recording ===

impl Recording {
    /// Returns true if processes can be recorded here. Otherwise prints a message, and the test is skipped.
    pub(crate) fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        seccomp::available(&AVAILABLE, SCRIPT, &["/dev/null", "/"], "nothing can be recorded")
    }

    /// Returns the command with a recorder around it. To the system it is the same process.
    pub(crate) fn around(command: &Command, record: &Path, dir: &Path) -> Command {
        let mut recorded = seccomp::command(SCRIPT);
        recorded.arg(record).arg(dir).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                recorded.env(name, value);
            }
        }
        recorded.stdout(Stdio::piped());
        recorded
    }

    /// Reads a recorder's file up to the first incomplete entry.
    pub(crate) fn read(record: &Path) -> Self {
        let bytes = std::fs::read(record).expect("a record");
        let (mut calls, mut rest) = (Vec::new(), &bytes[..]);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let entry = Entry::parse(std::str::from_utf8(&rest[..end]).expect("a line of text"));
            let len = usize::try_from(entry.number("len")).expect("a length");
            let Some(data) = rest.get(end + 1..end + 1 + len) else { break };
            let thread = entry.number("thread");
            calls.push(Call { thread, kind: entry.call(data) });
            rest = &rest[end + 1 + len..];
        }
        Self { calls }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the lines that the process had printed before a call.
    pub(crate) fn printed(&self, before: usize) -> impl Iterator<Item = &str> {
        self.calls[..before].iter().filter_map(|call| match &call.kind {
            CallKind::Print(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the number of syncs of the directory itself that were complete before the process printed a line.
    pub(crate) fn directory_syncs_before(&self, line: &str) -> usize {
        let prints =
            |call: &Call| matches!(&call.kind, CallKind::Print(text) if text.lines().any(|printed| printed == line));
        let before = self.calls.iter().take_while(|call| !prints(call));
        before.filter(|call| matches!(call.kind, CallKind::SyncDir)).count()
    }

    /// Fills an empty directory with files that a power failure before a call could have left: all synced changes, and
    /// a random part of the others.
    pub(crate) fn cut(&self, before: usize, rng: &mut Rng, dir: &Path) {
        let calls = &self.calls[..before];
        // A sync is complete when its thread makes the next call.
        let newest: HashMap<u64, usize> = calls.iter().enumerate().map(|(at, call)| (call.thread, at)).collect();
        let done = |at: usize| newest[&calls[at].thread] > at;
        let mut files: BTreeMap<u64, Contents> = BTreeMap::new();
        let mut names = Names::default();
        for (at, call) in calls.iter().enumerate() {
            match &call.kind {
                CallKind::Print(_) => {}
                CallKind::Create { name } => names.change(Change::Create(name.clone())),
                CallKind::Rename { name, to } => names.change(Change::Rename(name.clone(), to.clone())),
                CallKind::Remove { name } => names.change(Change::Remove(name.clone())),
                CallKind::SyncDir if done(at) => names.durable = names.changes.len(),
                CallKind::Sync { file } if done(at) => files.entry(*file).or_default().sync(),
                CallKind::SyncDir | CallKind::Sync { .. } => {}
                CallKind::Write { file, name, at, bytes } => {
                    names.set_file(name, *file);
                    files.entry(*file).or_default().pending.push(Pending::Write(*at, bytes.clone()));
                }
                CallKind::Size { file, name, to, at_least } => {
                    names.set_file(name, *file);
                    files.entry(*file).or_default().pending.push(Pending::Size(*to, *at_least));
                }
            }
        }
        // Changes of a directory reach the disk in order.
        let count = names.durable + rng.below((names.changes.len() - names.durable + 1) as u64) as usize;
        for (name, file) in names.after(count) {
            let contents = file.and_then(|file| files.get(&file)).map(|contents| contents.cut(rng)).unwrap_or_default();
            contents.write(&dir.join(name));
        }
    }
}

/// One line of a record.
struct Entry(HashMap<String, String>);

impl Entry {
    /// The recorder's lines are flat JSON, and names need no escapes.
    fn parse(line: &str) -> Self {
        let members = line.trim_matches(['{', '}']).split(", ").filter_map(|member| member.split_once(": "));
        let text = |text: &str| text.trim_matches('"').to_owned();
        Self(members.map(|(name, value)| (text(name), text(value))).collect())
    }

    fn number(&self, name: &str) -> u64 {
        self.0[name].parse().expect("a number")
    }

    fn call(&self, data: &[u8]) -> CallKind {
        let name = || self.0["name"].clone();
        let size =
            |at_least| CallKind::Size { file: self.number("file"), name: name(), to: self.number("to"), at_least };
        match self.0["call"].as_str() {
            "say" => CallKind::Print(String::from_utf8_lossy(data).into_owned()),
            "create" => CallKind::Create { name: name() },
            "rename" => CallKind::Rename { name: name(), to: self.0["to"].clone() },
            "remove" => CallKind::Remove { name: name() },
            "sync_dir" => CallKind::SyncDir,
            "write" => {
                CallKind::Write { file: self.number("file"), name: name(), at: self.number("at"), bytes: data.to_vec() }
            }
            "size" => size(false),
            "allocate" => size(true),
            "sync" => CallKind::Sync { file: self.number("file") },
            other => panic!("an unknown call {other}"),
        }
    }
}

/// The names in the directory over time.
#[derive(Default)]
struct Names {
    changes: Vec<Change>,
    /// The number of durable changes.
    durable: usize,
    /// The number of the file that was created, by the index of the creation.
    created: HashMap<usize, u64>,
}

enum Change {
    Create(String),
    Rename(String, String),
    Remove(String),
}

impl Names {
    fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// A creating call does not have the number of its file, but the first call that uses the file has.
    fn set_file(&mut self, name: &str, file: u64) {
        let place = self.places(self.changes.len()).remove(name);
        if let Some(place) = place {
            self.created.entry(place).or_insert(file);
        }
    }

    /// Returns the index of the creating call for each name.
    fn places(&self, changes: usize) -> BTreeMap<String, usize> {
        let mut places = BTreeMap::new();
        for (at, change) in self.changes[..changes].iter().enumerate() {
            match change {
                Change::Create(name) => drop(places.insert(name.clone(), at)),
                Change::Remove(name) => drop(places.remove(name)),
                Change::Rename(name, to) => {
                    let file = places.remove(name).expect("a file that was renamed was there");
                    places.insert(to.clone(), file);
                }
            }
        }
        places
    }

    fn after(&self, changes: usize) -> BTreeMap<String, Option<u64>> {
        let file = |(name, place)| (name, self.created.get(&place).copied());
        self.places(changes).into_iter().map(file).collect()
    }
}

/// The contents of a file.
#[derive(Clone, Default)]
struct Contents {
    /// The written bytes, the newest last.
    written: Vec<(u64, Vec<u8>)>,
    size: u64,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Pending {
    Write(u64, Vec<u8>),
    Size(u64, bool),
}

impl Contents {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.apply(change);
        }
    }

    fn apply(&mut self, change: Pending) {
        match change {
            Pending::Write(at, bytes) => {
                self.size = self.size.max(at + bytes.len() as u64);
                self.written.push((at, bytes));
            }
            Pending::Size(to, at_least) => {
                self.size = if at_least { self.size.max(to) } else { to };
                if !at_least {
                    // Truncated bytes are lost, even if the file grows again.
                    self.written.retain_mut(|(at, bytes)| {
                        bytes.truncate(usize::try_from(to.saturating_sub(*at)).unwrap_or(usize::MAX));
                        !bytes.is_empty()
                    });
                }
            }
        }
    }

    /// Returns the contents with some of the unsynced bytes, page by page.
    fn cut(&self, rng: &mut Rng) -> Self {
        let mut left = Self { pending: Vec::new(), ..self.clone() };
        let everything = rng.below(4);
        for change in self.pending.clone() {
            match (everything, change) {
                (0, _) => {}
                (1, change) => left.apply(change),
                (_, Pending::Write(at, bytes)) => {
                    let mut from = 0;
                    while from < bytes.len() {
                        let page = PAGE - (usize::try_from(at).expect("an offset") + from) % PAGE;
                        let to = (from + page).min(bytes.len());
                        if rng.below(2) == 0 {
                            left.apply(Pending::Write(at + from as u64, bytes[from..to].to_vec()));
                        }
                        from = to;
                    }
                }
                (_, change) if rng.below(2) == 0 => left.apply(change),
                _ => {}
            }
        }
        left
    }

    fn write(&self, path: &Path) {
        let file = File::create_new(path).expect("a new file");
        file.set_len(self.size).expect("a size");
        for (at, bytes) in &self.written {
            file.write_all_at(bytes, *at).expect("a write");
        }
    }
}
