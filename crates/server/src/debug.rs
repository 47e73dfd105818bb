//! What is served for those who look into the server: settings that can be changed while it runs, files of its log.

mod flags;
mod logs;
mod text;
mod zpages;

pub use flags::{DebugFlag, DebugFlagsLink};
pub use logs::LogsLink;
pub use text::DebugTextLink;
pub use zpages::ZPagesLink;
