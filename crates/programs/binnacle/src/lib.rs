//! The program `binnacle` for administrators: inspects, checks, migrates, backs up and restores stores.
//!
//! The crate only uses the interface of `binnacle_store` and copies values as bytes, encrypted or not; only `doctor`
//! decodes them. `compare` speaks to API servers. `docs/tools.md` is the manual.

mod api;
mod backup;
mod check;
pub mod cli;
mod cluster;
mod compare;
mod completion;
mod digests;
mod doctor;
mod error;
mod history;
mod keys;
mod location;
#[cfg(test)]
mod manual;
mod migrate;
mod retry;
mod salvage;
mod sizes;
mod sort;
mod target;
#[cfg(test)]
mod testing;
mod text;
mod undelete;

pub use error::Error;
