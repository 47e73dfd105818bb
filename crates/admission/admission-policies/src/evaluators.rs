//! The compiled policies of each type.

pub(crate) mod decision;
mod mutating;
pub(crate) mod patch;
pub(crate) mod schema;
mod validating;

pub(crate) use self::mutating::{Mutating, Mutation};
pub(crate) use self::validating::Validating;
