//! HTTP endpoints of the API: routing, negotiation, parameters, bodies, lists, watches, tables, failures.
//!
//! `http::Request` is not used below this crate: the registry receives contexts and trees. Independent of particular
//! kinds.

mod api;
mod audit;
mod body;
mod custom_resource;
mod decode_object;
mod discover;
mod failure;
mod list_encoder;
mod list_protobuf;
mod list_stream;
mod list_text;
mod managed_fields;
mod negotiate;
mod object_view;
mod params;
mod patch_type;
mod piece_buffer;
mod respond;
mod shards;
mod subresources;
mod table;
mod verbs;
mod watch_stream;

pub use api::{Api, SubresourceCall, SubresourceHandler, SubresourceKey};
pub use audit::read_object;
pub use body::{ExpectedKind, decode as decode_body, read as read_body};
pub use discover::response as discovery_response;
pub use failure::{
    of_preferences as failure_response, of_preferences_or_cbor as failure_response_or_cbor, status as respond_status,
};
pub use negotiate::{Encoding, Encodings, Output, Transform, input as input_encoding};
pub use params::{
    FieldValidation, WriteKind, WriteParams, dry_run as sent_dry_run, reject_export, write as write_params,
};
pub use respond::{object as respond_object, plain as respond_plain};
pub use subresources::{list_options, respond as respond_subresource};
pub use table::Include;
pub use verbs::delete::UnsafeDeleteAuthorizer;
pub use verbs::{DUPLICATE_OWNERS, HandlerResult, manager as field_manager};
