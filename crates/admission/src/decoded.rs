//! Settings that plugins ask for with every request (classes, accounts, limits), kept as they were decoded.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::{Status, Text};
use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_watchcache::Entry;
use parking_lot::Mutex;

/// How many objects of a kind are kept. When there are more, the kind begins anew.
const MOST: usize = 512;

/// Decoded objects of one kind by path. What an object has become since is told by its revision.
#[derive(Default)]
pub(crate) struct Decoded(Mutex<HashMap<Text, (Revision, Arc<Value>)>>);

impl Decoded {
    /// The tree of an entry, decoded now unless it is at hand.
    pub(crate) fn tree(
        &self,
        entry: &Entry,
        decode: impl FnOnce() -> Result<Value, Status>,
    ) -> Result<Arc<Value>, Status> {
        if let Some((revision, tree)) = self.0.lock().get(entry.path())
            && *revision == entry.revision()
        {
            return Ok(tree.clone());
        }
        let tree = Arc::new(decode()?);
        let mut kept = self.0.lock();
        if kept.len() >= MOST && !kept.contains_key(entry.path()) {
            kept.clear();
        }
        kept.insert(entry.path().into(), (entry.revision(), tree.clone()));
        Ok(tree)
    }
}
