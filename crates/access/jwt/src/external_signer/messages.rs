//! The messages of `externaljwt/v1`, written by hand since they are frozen.

use prost::Message;

pub(crate) const SIGN: &str = "/v1.ExternalJWTSigner/Sign";
pub(crate) const FETCH_KEYS: &str = "/v1.ExternalJWTSigner/FetchKeys";
pub(crate) const METADATA: &str = "/v1.ExternalJWTSigner/Metadata";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SignRequest {
    /// The second segment of the token: its claims.
    #[prost(string, tag = "1")]
    pub claims: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SignResponse {
    /// The first segment of the token: its header.
    #[prost(string, tag = "1")]
    pub header: String,
    /// The last segment of the token: its signature.
    #[prost(string, tag = "2")]
    pub signature: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FetchKeysRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<Key>,
    #[prost(message, optional, tag = "2")]
    pub data_timestamp: Option<Timestamp>,
    #[prost(int64, tag = "3")]
    pub refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Key {
    #[prost(string, tag = "1")]
    pub key_id: String,
    /// The key as SubjectPublicKeyInfo.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub exclude_from_oidc_discovery: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetadataRequest {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MetadataResponse {
    #[prost(int64, tag = "1")]
    pub max_token_expiration_seconds: i64,
}
