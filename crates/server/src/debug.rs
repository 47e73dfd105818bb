//! What is served for those who look into the server: settings that can be changed while it runs, profiles, files of its
//! log.

mod flags;
mod logs;
mod pprof;
mod socket;
mod text;
mod zpages;

pub use flags::{DebugFlag, DebugFlagsLink};
pub use logs::LogsLink;
pub use pprof::{HeapProfile, PprofLink};
pub use socket::DebugSocket;
pub use text::DebugTextLink;
pub use zpages::ZPagesLink;
