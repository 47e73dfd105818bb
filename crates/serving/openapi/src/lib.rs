//! OpenAPI: the documents of `/openapi/v3` and `/openapi/v2` for the served resources.
//!
//! Documents are generated from resource descriptions and field tables at the first request, directly as bytes, and
//! cached. [`OpenApi`] is independent of HTTP; [`OpenApiHandler`] handles requests.

mod accept;
mod conversion;
mod custom_resources;
mod definitions;
mod descriptions;
mod digest;
mod documents;
mod enum_descriptions;
mod gzip;
mod handler;
mod json;
mod names;
mod operation;
mod parameters;
mod parts;
mod protobuf;
mod remote_documents;
mod response;
mod routes;
mod v2;
mod v3;

pub use conversion::convert_to_v3;
pub use handler::OpenApiHandler;
pub use remote_documents::{ConvertedDocument, RemoteDocuments, keep_paths};
pub use response::{Document, OpenApi, OpenApiRequest, OpenApiResponse};

/// The title of documents; their version is the release that the server emulates.
const TITLE: &str = "Kubernetes";
/// The version of documents if no other release is emulated.
const RELEASE: &str = "1.36";
/// The title and version of documents of version 3 for custom resources.
const CUSTOM_TITLE: [&str; 2] = ["Kubernetes CRD Swagger", "v0.1.0"];
