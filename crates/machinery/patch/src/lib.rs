//! Patches of objects: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! All of them work on [`binnacle_schema::Value`] trees, independently of requests, storage and kinds.

pub mod apply;
pub mod json_patch;
pub mod merge;
mod order;
pub mod strategic;
