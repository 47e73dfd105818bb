//! Profiles of this process in the format that `go tool pprof` reads: where processor time goes, which threads and tasks
//! there are; and the names of addresses.

mod cpu;
mod format;
mod symbols;
mod tasks;

pub use cpu::{CpuError, cpu};
pub use format::{Frame, Stacks, ValueType};
pub use symbols::name_of;
pub use tasks::{tasks, threads};
