//! Changing objects by description: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! Everything here works on [`binnacle_schema::Value`] trees and knows nothing of requests, storage or kinds.

pub mod apply;
pub mod json_patch;
pub mod merge;
mod order;
pub mod strategic;
