//! Settings of the process that a server runs in.

use binnacle_server::{DebugFlag, HeapProfile};

/// Settings that are left to the owner of the process.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The maximum number of files and sockets that the process may have open; connections leave the store its own.
    /// `None` asks the system for the limit in force.
    pub descriptors: Option<u64>,
    pub on_disk_failure: DiskFailure,
    /// Names and values of the program's flags, as `/flagz` shows them.
    pub flags: Vec<(String, String)>,
    /// The values that can be set while the server runs, at `/debug/flags`.
    pub debug_flags: Vec<DebugFlag>,
    /// Makes profiles of the memory in use, at `/debug/pprof/heap`: only the process knows its allocator.
    pub heap_profile: Option<HeapProfile>,
}

/// The reaction to a failed disk of an embedded store: nothing may be written after data that may or may not be there,
/// and only another start reads the data that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFailure {
    /// The server stops, and [`Handle::ended`](crate::Handle::ended) returns.
    #[default]
    StopServer,
    /// The process ends with this status.
    EndProcess(i32),
}
