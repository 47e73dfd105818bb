//! Field tables: the text form in which the repository keeps the built-in kinds as data, one table per API package.
//!
//! The importer writes them, the build of the `kinds` crate reads them; the format is described in
//! `crates/kinds/data/README.md`. Knows nothing of the sources of the facts nor of their uses.

mod read;
mod statics;
mod types;
mod write;

pub use read::{ReadError, read};
pub use statics::build;
pub use types::{DefaultValue, Field, KindOf, ListType, Message, Patch, Presence, Table, Ty, Union};
pub use write::{line, write};
