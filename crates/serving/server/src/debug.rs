//! Debugging endpoints: settings that can be changed at run time, profiles, log files.

mod configz;
mod flags;
mod logs;
mod pprof;
mod socket;
mod text;
mod zpages;

/// Returns the remainder of a path that is `root` or below it.
fn below<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub use configz::ConfigPage;
pub use flags::{DebugFlag, DebugFlagsHandler};
pub use logs::LogsHandler;
pub use pprof::{HeapProfile, PprofHandler};
pub use socket::DebugSocket;
pub use text::DebugTextHandler;
pub use zpages::ZPagesHandler;
