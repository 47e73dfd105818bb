//! Verification that both stores have the same contents: keys, values, leases, and the order of the last changes.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use binnacle_store::{KeyValue, Pages, Store, StoreError, prefix_range};

use super::Migration;
use crate::Error;
use crate::digests::ResourceDigests;
use crate::sort::Sorter;
use crate::text;

/// The limit on listed differences.
const MAX_LISTED: usize = 10;
/// Keys whose lease ends this soon may already be deleted in one store.
const EXPIRY_MARGIN: Duration = Duration::from_secs(5);

/// The keys of one store, in order.
pub(super) struct KeyCursor<'a> {
    pages: Pages<'a>,
    page: VecDeque<KeyValue>,
}

impl Migration<'_> {
    /// Compares all keys of both stores. Returns a table of their contents.
    pub(super) async fn verify(&mut self, source: &dyn Store) -> Result<String, Error> {
        let target = self.target.store().clone();
        let mut here = KeyCursor::new(source, &self.source_root).await?;
        let mut there = KeyCursor::new(&*target, &self.target_root).await?;
        let mut digests = ResourceDigests::new(&self.target_root);
        let (mut order, mut different) = (Sorter::new(), Differences::default());
        self.progress.begin();
        let (mut ours, mut theirs) = (here.next().await?, there.next().await?);
        while ours.is_some() || theirs.is_some() {
            let our_key = ours.as_ref().map(|kv| self.key(&kv.key));
            let missing = match (&our_key, &theirs) {
                (Some(ours), Some(theirs)) => *ours < theirs.key,
                (ours, _) => ours.is_some(),
            };
            let surplus = !missing && our_key.as_ref() != theirs.as_ref().map(|kv| &kv.key);
            if missing {
                if let Some(kv) = ours.take()
                    && !is_expiring(source, &kv).await?
                {
                    different.push(format!("{} is missing", String::from_utf8_lossy(&kv.key)));
                }
                ours = here.next().await?;
            } else if surplus {
                if let Some(kv) = theirs.take()
                    && !is_expiring(&*target, &kv).await?
                {
                    different.push(format!("{} is not in the source", String::from_utf8_lossy(&kv.key)));
                }
                theirs = there.next().await?;
            } else {
                if let (Some(ours), Some(theirs)) = (&ours, &theirs) {
                    if ours.value != theirs.value {
                        different.push(format!("{} has another value", String::from_utf8_lossy(&ours.key)));
                    }
                    if ours.lease.is_some() != theirs.lease.is_some() {
                        different
                            .push(format!("{} has a lease in one of them only", String::from_utf8_lossy(&ours.key)));
                    }
                    order.add((ours.mod_revision.0, theirs.mod_revision.0), 0).map_err(sorting)?;
                    digests.add(&theirs.key, &theirs.value);
                    let count = order.count();
                    self.progress.state(|| format!("verifying: {count}"));
                }
                (ours, theirs) = (here.next().await?, there.next().await?);
            }
        }
        if let Some(problem) = out_of_order(&mut order).map_err(sorting)? {
            different.push(problem);
        }
        different.none().map(|()| table(&digests))
    }
}

/// The differences between the stores.
#[derive(Default)]
struct Differences {
    named: Vec<String>,
    more: u64,
}

// === impl Differences ===

impl Differences {
    fn push(&mut self, difference: String) {
        match self.named.len() < MAX_LISTED {
            true => self.named.push(difference),
            false => self.more += 1,
        }
    }

    /// Fails if there are differences.
    fn none(&self) -> Result<(), Error> {
        if self.named.is_empty() {
            return Ok(());
        }
        let named = self.named.join("; ");
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        Err(Error::new(format!("the target differs from the source: {named}{more}")))
    }
}

fn sorting(error: io::Error) -> Error {
    Error::context("sorting revisions", error)
}

/// Returns true if the key's lease has expired or is about to.
async fn is_expiring(store: &dyn Store, kv: &KeyValue) -> Result<bool, Error> {
    let Some(lease) = kv.lease else { return Ok(false) };
    match store.lease_remaining(lease).await {
        Ok(left) => Ok(left <= EXPIRY_MARGIN),
        Err(StoreError::LeaseNotFound) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Reports changes whose revisions have another order in the target, or are not higher than in the source.
fn out_of_order(order: &mut Sorter<(u64, u64)>) -> io::Result<Option<String>> {
    // Of changes with the same revision in the source, the one with the highest revision in the target comes last.
    let mut before: Option<(u64, u64)> = None;
    for pair in order.sorted()? {
        let (ours, theirs) = pair?;
        if theirs <= ours {
            return Ok(Some(format!("the version of revision {ours} became revision {theirs}")));
        }
        if let Some(before) = before.filter(|before| before.0 < ours && before.1 >= theirs) {
            return Ok(Some(format!("the versions of revisions {} and {ours} changed places", before.0)));
        }
        before = Some((ours, theirs));
    }
    Ok(None)
}

fn table(digests: &ResourceDigests) -> String {
    let all = digests.total();
    format!(
        "{}{} objects ({}) are the same in both stores, in the same order of changes.\n",
        digests.table(),
        all.objects,
        text::bytes(all.bytes)
    )
}

// === impl KeyCursor ===

impl<'a> KeyCursor<'a> {
    pub(super) async fn new(store: &'a dyn Store, root: &str) -> Result<Self, Error> {
        let revision = store.current_revision().await?;
        let pages = Pages::new(store, prefix_range(root.as_bytes()), revision).streamed();
        Ok(Self { pages, page: VecDeque::new() })
    }

    pub(super) async fn next(&mut self) -> Result<Option<KeyValue>, Error> {
        self.peek().await?;
        Ok(self.page.pop_front())
    }

    pub(super) async fn peek(&mut self) -> Result<Option<&KeyValue>, Error> {
        while self.page.is_empty() {
            match self.pages.next_or_newer().await? {
                Some(page) => self.page = page.into(),
                None => return Ok(None),
            }
        }
        Ok(self.page.front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_changes_out_of_order() {
        let check = |pairs: &[(u64, u64)]| {
            let mut order = Sorter::new();
            for pair in pairs {
                order.add(*pair, 0).expect("a row");
            }
            out_of_order(&mut order).expect("rows")
        };
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[(5, 12), (2, 10), (9, 13)]), None);
        // Two keys of one transaction have no order.
        assert_eq!(check(&[(2, 11), (2, 10)]), None);
        assert!(check(&[(2, 11), (5, 10)]).is_some_and(|why| why.contains("changed places")));
        assert!(check(&[(5, 5)]).is_some_and(|why| why.contains("became")));
    }
}
