//! What a server may use of the process that it runs in, and do to it.

use binnacle_server::{DebugFlag, HeapProfile};

/// What is left to whoever owns the process.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// How many files and sockets the process may have open; connections leave the store its own. `None` asks the system
    /// for the limit in force.
    pub descriptors: Option<u64>,
    pub on_disk_failure: DiskFailure,
    /// Names and values of the program's flags, as `/flagz` shows them.
    pub flags: Vec<(String, String)>,
    /// What can be set while the server runs, at `/debug/flags`.
    pub debug_flags: Vec<DebugFlag>,
    /// Makes profiles of the memory in use, at `/debug/pprof/heap`: only the process knows its allocator.
    pub heap_profile: Option<HeapProfile>,
}

/// What happens when the disk of an embedded store fails: nothing may be written on top of what may or may not be there,
/// and only another start reads what is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFailure {
    /// The server stops, which [`Handle::ended`](crate::Handle::ended) tells.
    #[default]
    StopServer,
    /// The process ends with this status.
    EndProcess(i32),
}
