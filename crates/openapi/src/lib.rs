//! OpenAPI: what is served, told in the documents of `/openapi/v3` and `/openapi/v2`.
//!
//! Documents are computed from resource descriptions and field tables when they are first asked for, written straight
//! into bytes, and kept as such. [`OpenApi`] is pure; [`OpenApiLink`] is how the server reaches it.

mod accept;
mod answer;
mod converted;
mod custom;
mod definitions;
mod documents;
mod enum_words;
mod gzip;
mod json;
mod link;
mod names;
mod operation;
mod others;
mod parameters;
mod parts;
mod protobuf;
mod routes;
mod v2;
mod v3;
mod words;

pub use answer::{Answer, Ask, Document, OpenApi};
pub use converted::converted;
pub use link::OpenApiLink;
pub use others::{Made, Others, keep_paths};

/// Title and version of documents.
const TITLE: [&str; 2] = ["Kubernetes", "1.36"];
/// Title and version of documents of version 3 about custom resources.
const CUSTOM_TITLE: [&str; 2] = ["Kubernetes CRD Swagger", "v0.1.0"];
