//! The operator's program: looks into stores, checks them, moves their data, saves and restores it.
//!
//! Everything here speaks the contract of `binnacle_store` and moves values as the bytes that they are, encrypted or
//! not; only `doctor` looks inside. `docs/tools.md` is the manual.

mod backup;
mod check;
pub mod cli;
mod doctor;
mod error;
mod keys;
mod migrate;
mod pages;
mod patient;
mod place;
mod progress;
mod sizes;
mod sort;
mod target;
#[cfg(test)]
mod testing;
mod text;

pub use error::Error;
