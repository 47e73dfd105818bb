//! What must hold of every input that a client or another server can send, whatever it is: decoders answer or refuse and read what they
//! write, patches stay within their limits, applying twice changes nothing.
//!
//! A law takes bytes and panics where it is broken. The programs in `fuzz/` try them on generated input, the tests of
//! this crate on `corpus/`, where every finding stays as a file.

mod apply;
mod json;
mod json_patch;
mod merge_patch;
mod objects;
mod policy_expression;
mod protobuf;
mod review_answer;
mod spdy;
mod strategic_patch;
mod yaml;

pub use apply::apply;
pub use json::json;
pub use json_patch::json_patch;
pub use merge_patch::merge_patch;
pub use policy_expression::policy_expression;
pub use protobuf::protobuf;
pub use review_answer::review_answer;
pub use spdy::spdy;
pub use strategic_patch::strategic_patch;
pub use yaml::yaml;

/// A law, by the name of its folder in the corpus.
pub type Law = (&'static str, fn(&[u8]));

/// All laws.
pub const ALL: &[Law] = &[
    ("apply", apply),
    ("json", json),
    ("json_patch", json_patch),
    ("merge_patch", merge_patch),
    ("policy_expression", policy_expression),
    ("protobuf", protobuf),
    ("review_answer", review_answer),
    ("spdy", spdy),
    ("strategic_patch", strategic_patch),
    ("yaml", yaml),
];
