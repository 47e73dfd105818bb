//! Protobuf of any kind by its [`crate::Message`], byte for byte as Go's generated code writes it.

mod decode;
mod encode;
mod envelope;
mod error;
mod index;
mod normalize;
mod raw_json;
mod scalars;
mod text;
mod to_json;
mod wire;

pub use decode::{DEPTH, decode, decode_object, decode_within, narrow};
pub use encode::encode;
pub use envelope::{
    Envelope, ListMeta, MAGIC, Splice, list_head, list_item_header, list_item_len, list_tail, splice_resource_version,
    unwrap, watch_frame, watch_frame_head, wrap, wrap_into,
};
pub use error::ProtoError;
pub use to_json::{Overrides, to_json};

#[cfg(test)]
mod tests;
