//! OpenAPI: the served resources in the documents of `/openapi/v3` and `/openapi/v2`.
//!
//! Documents are made from resource descriptions and field tables at the first request, directly as bytes, and kept.
//! [`OpenApi`] is pure; [`OpenApiLink`] connects it to the server.

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

/// The title of documents; their version is the release that the server emulates.
const TITLE: &str = "Kubernetes";
/// The version of documents where no other release is emulated.
const RELEASE: &str = "1.36";
/// The title and version of documents of version 3 for custom resources.
const CUSTOM_TITLE: [&str; 2] = ["Kubernetes CRD Swagger", "v0.1.0"];
