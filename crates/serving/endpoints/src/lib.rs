//! HTTP endpoints of the API: routing, negotiation, parameters, bodies, lists, watches, tables, failures.
//!
//! `http::Request` is not used below this crate: the registry gets contexts and trees. Independent of particular kinds.

mod api;
mod audit;
mod body;
mod custom;
mod discover;
mod failure;
mod gathered;
mod list_protobuf;
mod list_stream;
mod list_text;
mod managed;
mod negotiate;
mod params;
mod patch_type;
mod respond;
mod shape;
mod shards;
mod table;
mod unstored;
mod verbs;
mod watch_stream;

pub use api::{Api, UnstoredCall, UnstoredHandler, UnstoredKey};
pub use audit::{note_request_object, read_object};
pub use body::{Expected, read as read_body, typed as decode_body};
pub use discover::response as discovery_response;
pub use failure::{of_preferences as failure_response, of_preferences_or_cbor as failure_response_or_cbor};
pub use negotiate::{Encoding, Encodings, Output, Transform, input as input_encoding};
pub use params::{FieldValidation, WriteKind, WriteParams, dry_run as sent_dry_run, write as write_params};
pub use respond::{object as respond_object, plain as respond_plain, status as respond_status};
pub use table::Include;
pub use unstored::{list_options, respond as respond_unstored};
pub use verbs::delete::UnsafeDeletes;
pub use verbs::{Answer, DUPLICATE_OWNERS, manager as field_manager};
