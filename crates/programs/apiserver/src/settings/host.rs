//! Settings of the process that a server runs in.

use std::fmt;
use std::sync::Arc;

use binnacle_server::{ConfigPage, DebugFlag, HeapProfile};

/// Settings that the owner of the process chooses.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The maximum number of open files and sockets of the process; connections leave some for the store. `None` uses
    /// the system's current limit.
    pub descriptors: Option<u64>,
    pub on_disk_failure: DiskFailure,
    /// Names and values of the program's flags, for `/flagz`.
    pub flags: Vec<(String, String)>,
    /// The values that can be changed while the server runs, at `/debug/flags`.
    pub debug_flags: Vec<DebugFlag>,
    /// The source of memory profiles, at `/debug/pprof/heap`: the process provides it, as it chooses the allocator.
    pub heap_profile: Option<HeapProfile>,
    /// The page `/configz`, if the program has a configuration file.
    pub configz: Option<ConfigPage>,
    pub on_reading: Option<OnReading>,
    /// True if the process ends soon after the server: the operating system then frees the memory of the embedded
    /// store, which takes a second per million objects otherwise.
    pub ends_with_server: bool,
}

/// Is called while the embedded store is read at the start: with the bytes that have been read, and all of them.
#[derive(Clone)]
pub struct OnReading(pub(crate) Arc<dyn Fn(u64, u64) + Send + Sync>);

// === impl OnReading ===

impl OnReading {
    pub fn new(report: Arc<dyn Fn(u64, u64) + Send + Sync>) -> Self {
        Self(report)
    }
}

impl fmt::Debug for OnReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReading")
    }
}

/// The reaction to a failed disk of an embedded store. Nothing may be written after data whose durability is unknown,
/// and only another start reads what the disk has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFailure {
    /// The server stops, and [`Handle::ended`](crate::Handle::ended) returns.
    #[default]
    StopServer,
    /// The process ends with this status.
    EndProcess(i32),
}
