//! Custom resources: the schema of one, made at run time from `openAPIV3Schema` of a version of its definition, and all
//! that follows from it for objects, which are trees of [`binnacle_schema::Value`].

mod format;
mod interner;
mod parse;
mod path;
mod pattern;
mod structural;

pub use format::{Format, Known};
pub use interner::Interner;
pub use parse::Unsupported;
pub use pattern::Pattern;
pub use structural::{Additional, Kind, ListType, MapType, Rule, Structural, Values};
