//! Hashes of documents, in their names and entity tags.

use sha2::{Digest, Sha512};

/// Returns the hash of a document.
pub(crate) fn digest(body: &[u8]) -> String {
    Sha512::digest(body).iter().map(|byte| format!("{byte:02X}")).collect()
}
