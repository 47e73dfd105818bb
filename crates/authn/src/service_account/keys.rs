//! Keys that service account tokens are verified by: those of files, or those of a process that signs.

use binnacle_jwt::PublicKey;
use binnacle_request::BoxFuture;

/// Keys that may change while the server runs.
pub trait TokenKeys: Send + Sync {
    /// The keys that a token may mean that names one, or all for an empty name; and their generation.
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, (u64, Vec<PublicKey>)>;

    /// Changes whenever the keys do: what was verified before is then verified again.
    fn generation(&self) -> u64;
}

/// Keys that stay.
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
