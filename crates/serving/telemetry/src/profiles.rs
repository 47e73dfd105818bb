//! Profiles of this process in the format of `go tool pprof`: CPU time, threads and tasks; and the lookup of function
//! names by address.

mod cpu;
mod format;
mod symbols;
mod tasks;

pub use cpu::{CpuError, cpu};
pub use format::{Frame, Stacks, ValueType};
pub use symbols::function_name;
pub use tasks::{tasks, threads};
