//! Field tables: the text format in which the repository stores the built-in kinds, one table for each API package.
//!
//! The importer writes them, and the build of the `kinds` crate reads them; `crates/api/kinds/data/README.md` describes
//! the format. This crate is independent of the sources and the users of the data.

mod handles;
mod read;
mod sources;
mod statics;
mod types;
mod write;

pub use handles::build as build_handles;
pub use read::{ReadError, read};
pub use statics::build;
pub use types::{DefaultValue, Field, KindOf, ListType, Message, Patch, Presence, Table, Ty, Union};
pub use write::{line, write};
