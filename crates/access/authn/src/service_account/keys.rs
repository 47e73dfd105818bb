//! The keys that verify service account tokens, from files or an external signer.

use binnacle_jwt::PublicKey;
use binnacle_request::BoxFuture;

/// A source of keys, which may change while the server runs.
pub trait TokenKeys: Send + Sync {
    /// Returns the generation of the keys, and the keys with this ID, or all keys for an empty ID.
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, (u64, Vec<PublicKey>)>;

    /// Returns the generation of the keys. Tokens are verified again when it changes.
    fn generation(&self) -> u64;
}

/// Keys that do not change.
pub struct FixedKeys(pub Vec<PublicKey>);

impl TokenKeys for FixedKeys {
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, (u64, Vec<PublicKey>)> {
        let named = self.0.iter().filter(|key| id.is_empty() || key.id() == id);
        let found = (0, named.cloned().collect());
        Box::pin(async { found })
    }

    fn generation(&self) -> u64 {
        0
    }
}
