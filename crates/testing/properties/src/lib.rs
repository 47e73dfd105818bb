//! Properties that hold for any input of clients or other servers: decoders accept or refuse it and can read their own
//! output, patches stay within their limits, a second application changes nothing.
//!
//! A property takes bytes, and panics if it does not hold. The programs in `fuzz/` check properties on generated input,
//! the tests of this crate on `corpus/`, which keeps every finding as a file.

mod apply;
mod cbor;
mod json;
mod json_patch;
mod json_path;
mod merge_patch;
mod objects;
mod pattern;
mod policy_expression;
mod protobuf;
mod review_answer;
mod spdy;
mod strategic_patch;
mod structural;
mod work;
mod yaml;

pub use apply::apply;
pub use cbor::cbor;
pub use json::json;
pub use json_patch::json_patch;
pub use json_path::json_path;
pub use merge_patch::merge_patch;
pub use pattern::pattern;
pub use policy_expression::policy_expression;
pub use protobuf::protobuf;
pub use review_answer::review_answer;
pub use spdy::spdy;
pub use strategic_patch::strategic_patch;
pub use structural::structural;
pub use work::charged;
pub use yaml::yaml;

/// A property and the name of its folder in the corpus.
pub type Property = (&'static str, fn(&[u8]));

/// All properties.
pub const ALL: &[Property] = &[
    ("apply", apply),
    ("cbor", cbor),
    ("json", json),
    ("json_patch", json_patch),
    ("json_path", json_path),
    ("merge_patch", merge_patch),
    ("pattern", pattern),
    ("policy_expression", policy_expression),
    ("protobuf", protobuf),
    ("review_answer", review_answer),
    ("spdy", spdy),
    ("strategic_patch", strategic_patch),
    ("structural", structural),
    ("yaml", yaml),
];
