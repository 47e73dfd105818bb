//! Protobuf of any kind from its [`crate::Message`], byte for byte as the Go server's generated code writes it.

#[allow(dead_code, reason = "the encoder that reads it follows")]
mod plan;

pub(crate) use plan::Plan;
