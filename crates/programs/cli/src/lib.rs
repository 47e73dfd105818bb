//! Shared parts of the programs' command lines: the progress of long work, and, for their tests, man pages and shell
//! completions.

#[cfg(feature = "manual")]
pub mod manual;
pub mod progress;
