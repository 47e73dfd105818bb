//! Served for those who look into the server: settings that can be changed while it runs, profiles, files of its
//! log.

mod flags;
mod logs;
mod pprof;
mod socket;
mod text;
mod zpages;

/// The rest of a path that is `root` or lies below it.
fn below<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub use flags::{DebugFlag, DebugFlagsLink};
pub use logs::LogsLink;
pub use pprof::{HeapProfile, PprofLink};
pub use socket::DebugSocket;
pub use text::DebugTextLink;
pub use zpages::ZPagesLink;
