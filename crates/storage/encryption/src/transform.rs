//! Transformers between values and their stored bytes.

use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::aggregate;
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::ciphers::Cipher;
use crate::kms::Envelope;
use crate::metrics::{Direction, TransformMetrics};
use crate::transform_result::{PlainValue, TransformError};

/// The prefix of encrypted values.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// A transformer of one provider, or a list of transformers, where the first one writes.
pub(crate) enum Transformer {
    /// No encryption. It returns an error for encrypted values.
    Identity,
    Cipher(Cipher),
    Kms(Envelope),
    /// Several transformers. Those with a matching prefix are tried in order.
    Prefixed {
        transformers: Vec<PrefixTransformer>,
        /// The error if no prefix matches.
        no_match: &'static str,
    },
}

/// A prefix of values, and the transformer for these values.
pub(crate) type PrefixTransformer = (Vec<u8>, Arc<Transformer>);

impl Transformer {
    /// Returns the bytes to store for a value under the key.
    pub(crate) fn seal(
        &self,
        value: &[u8],
        key: &[u8],
        metrics: TransformMetrics<'_>,
    ) -> Result<Vec<u8>, TransformError> {
        match self {
            Self::Identity => Ok(value.to_vec()),
            Self::Cipher(cipher) => cipher.seal(value, key),
            Self::Kms(envelope) => envelope.seal(value, key, metrics.metrics),
            Self::Prefixed { transformers, no_match } => {
                let (prefix, first) = transformers.first().ok_or_else(|| TransformError::new(*no_match))?;
                let started = Instant::now();
                let sealed = first.seal(value, key, metrics);
                metrics.record(Direction::ToStorage, prefix, started, sealed.as_ref().err());
                Ok([&**prefix, &*sealed?].concat())
            }
        }
    }

    /// Returns the value of stored bytes. It may call a KMS plugin for the data key.
    pub(crate) fn open<'a>(
        &'a self,
        data: &'a Bytes,
        key: &'a [u8],
        metrics: TransformMetrics<'a>,
    ) -> BoxFuture<'a, Result<PlainValue, TransformError>> {
        Box::pin(async move {
            match self {
                Self::Identity if data.starts_with(ENCRYPTED) => {
                    Err(TransformError::new("identity transformer tried to read encrypted data"))
                }
                Self::Identity => Ok(PlainValue { value: data.clone(), stale: false }),
                Self::Cipher(cipher) => Ok(PlainValue { value: cipher.open(data, key)?.into(), stale: false }),
                Self::Kms(envelope) => envelope.open(data, key, metrics.metrics).await,
                Self::Prefixed { transformers, no_match } => {
                    open_prefixed(transformers, no_match, data, key, metrics).await
                }
            }
        })
    }
}

/// Decrypts with each transformer whose prefix matches. A provider may be configured several times with different keys,
/// so the first failure is not final.
async fn open_prefixed(
    transformers: &[PrefixTransformer],
    no_match: &'static str,
    data: &Bytes,
    key: &[u8],
    metrics: TransformMetrics<'_>,
) -> Result<PlainValue, TransformError> {
    let search_started = Instant::now();
    let mut errors: Vec<TransformError> = Vec::new();
    for (at, (prefix, transformer)) in transformers.iter().enumerate() {
        if !data.starts_with(prefix) {
            continue;
        }
        let started = Instant::now();
        let result = transformer.open(&data.slice(prefix.len()..), key, metrics).await;
        if !(prefix.is_empty() && result.is_err()) {
            let prefix = if prefix.is_empty() { b"identity" } else { prefix.as_slice() };
            metrics.record(Direction::FromStorage, prefix, started, result.as_ref().err());
        }
        match result {
            Ok(opened) => return Ok(PlainValue { stale: opened.stale || at != 0, ..opened }),
            // Encrypted data is not an error of the identity provider.
            Err(_) if prefix.is_empty() => {}
            Err(error) => errors.push(error),
        }
    }
    Err(match errors.as_slice() {
        [] => {
            let unknown = TransformError::new(no_match);
            metrics.record(Direction::FromStorage, b"unknown", search_started, Some(&unknown));
            unknown
        }
        [one] => one.clone(),
        several => TransformError::new(aggregate(several)),
    })
}
