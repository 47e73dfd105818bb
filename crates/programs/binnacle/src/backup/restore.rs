//! Restore of a file into a new data directory, as of any revision in the file.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use binnacle_cli::progress::{Progress, Unit};
use binnacle_registry::ROOT;
use binnacle_store::{LeaseId, Revision, Store};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

use super::file::{Frame, Reader};
use super::foreign;
use crate::Error;
use crate::digests::ResourceDigests;
use crate::location::NewStore;
use crate::sort::Sorter;
use crate::target::Target;

/// The result of a restore.
pub(crate) struct RestoreReport {
    objects: u64,
    /// Keys whose lease had expired.
    expired: u64,
    revision: Revision,
    begins: Revision,
    /// True if the digests in the file were compared.
    compared: bool,
}

/// The contents of a file as of one revision.
pub(crate) struct Contents {
    /// The offset of each frame, sorted by the revision of the last change.
    pub(crate) live: Sorter<(u64, u64)>,
    pub(crate) leases: HashMap<LeaseId, Duration>,
    /// Data beside the objects.
    pub(crate) notes: HashMap<String, Bytes>,
    pub(crate) revision: Revision,
    /// The newest revision of the file.
    pub(crate) newest: Revision,
    /// The number of frames before the last one.
    pub(super) frames: u64,
}

/// Creates the store of a data directory from a backup, or from a file of others, as of `revision`, by default the
/// newest. Its first revision is
/// `bump` above the newest of the file, because clients that have seen a revision from after the backup must not see it
/// again.
pub(crate) async fn restore(path: &Path, dir: &Path, revision: Option<u64>, bump: u64) -> Result<RestoreReport, Error> {
    let (mut reader, mut contents) = open(path, revision)?;
    let begins = contents.newest.0.checked_add(bump).filter(|begins| *begins < i64::MAX as u64);
    let begins = Revision(
        begins.ok_or_else(|| Error::new("--bump-revision is too large: the first revision must fit into 63 bits"))?,
    );
    let location = NewStore::prepare(dir)?
        .ok_or_else(|| Error::new(format!("{} already has a store: restore to a new directory", dir.display())))?;
    let options =
        EmbeddedOptions { first_revision: begins.0, lean: true, ..EmbeddedOptions::new(&location.unfinished) };
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(options)).await;
    let store = Arc::new(opened.map_err(|error| Error::context("making the store", error))??);
    let filled = fill(store.clone(), &mut contents, &mut reader, path).await;
    store.close().await;
    let (expired, compared) = filled?;
    location.finish()?;
    let objects = contents.live.count() - expired;
    Ok(RestoreReport { objects, expired, revision: contents.revision, begins, compared })
}

/// Opens a backup, or a file of others, as of `revision`, by default the newest.
pub(crate) fn open(path: &Path, revision: Option<u64>) -> Result<(Reader, Contents), Error> {
    let about = |error: io::Error| Error::context(&path.display().to_string(), error);
    let (mut reader, head) = foreign::open(path).map_err(about)?;
    if head.root != ROOT {
        return Err(Error::new(format!("the keys in {} begin with {}, not with {ROOT}", path.display(), head.root)));
    }
    let contents = Contents::read(&mut reader, head.begins, revision.map(Revision)).map_err(about)?;
    Ok((reader, contents))
}

/// Writes all objects in the order of their changes, and reads them back. Returns the number of those with an expired
/// lease, and true if all objects have the digests in the file.
async fn fill(
    store: Arc<EmbeddedStore>,
    contents: &mut Contents,
    reader: &mut Reader,
    path: &Path,
) -> Result<(u64, bool), Error> {
    let about = |error: io::Error| Error::context(&path.display().to_string(), error);
    let mut target = Target::embedded(store.clone(), ROOT).await?;
    for (lease, left) in &contents.leases {
        target.grant(*lease, *left).await?;
    }
    let mut progress = Progress::new();
    let all = contents.live.count();
    let (mut done, mut expired) = (0, 0);
    for row in contents.live.sorted().map_err(sorting)? {
        let (_, at) = row.map_err(sorting)?;
        let Frame::Put(kv) = reader.read_at(at).map_err(about)? else {
            return Err(Error::new("the file changed while it was read"));
        };
        match kv.lease.is_some_and(|lease| !contents.leases.contains_key(&lease)) {
            true => expired += 1,
            false => target.put(None, kv.key.clone(), kv).await?,
        }
        done += 1;
        progress.step(Unit::Items, "restoring objects", done, all);
    }
    target.flush().await?;
    let digests = read_back(&*store, contents, reader).await?;
    let recorded = contents.recorded().map_err(about)?.filter(|_| contents.revision == contents.newest);
    let Some(recorded) = recorded else { return Ok((expired, false)) };
    match digests.difference(&recorded, "the restored store has") {
        Some(difference) => Err(Error::new(format!("{}: {difference}", path.display()))),
        None => Ok((expired, true)),
    }
}

/// Compares all objects in the store with the file. Returns their digests, including those that were left out because
/// their lease has expired.
async fn read_back(store: &dyn Store, contents: &mut Contents, reader: &mut Reader) -> Result<ResourceDigests, Error> {
    let mut digests = ResourceDigests::new(ROOT);
    for row in contents.live.sorted().map_err(sorting)? {
        let (_, at) = row.map_err(sorting)?;
        let frame = reader.read_at(at).map_err(|error| Error::context("reading the file again", error))?;
        let Frame::Put(kv) = frame else { continue };
        let (restored, _) = store.get(kv.key.clone(), None).await?;
        let wanted = kv.lease.is_none_or(|lease| contents.leases.get(&lease).is_some_and(|left| left.as_secs() > 60));
        match restored {
            Some(restored) if restored.value == kv.value => digests.add(&restored.key, &restored.value),
            None if !wanted => digests.add(&kv.key, &kv.value),
            _ => return Err(Error::new(format!("{} was not restored", String::from_utf8_lossy(&kv.key)))),
        }
    }
    Ok(digests)
}

/// All changes by key and revision, with the offsets of their frames.
struct Changes(Sorter<(Bytes, (u64, u64))>);

/// The offset of a deletion, which needs no frame.
const DELETED: u64 = u64::MAX;

// === impl Changes ===

impl Changes {
    fn add(&mut self, key: &[u8], revision: Revision, at: u64) -> io::Result<()> {
        // Copied, so that the key does not keep its value in memory.
        self.0.add((Bytes::copy_from_slice(key), (revision.0, at)), key.len())
    }

    /// Returns the last change of each key that exists.
    fn newest(mut self) -> io::Result<Sorter<(u64, u64)>> {
        let mut live = Sorter::new();
        let mut last: Option<(Bytes, (u64, u64))> = None;
        let mut keep = |change: Option<(Bytes, (u64, u64))>| match change {
            Some((_, change)) if change.1 != DELETED => live.add(change, 0),
            _ => Ok(()),
        };
        for row in self.0.sorted()? {
            let row = row?;
            if let Some(before) = last.take()
                && before.0 != row.0
            {
                keep(Some(before))?;
            }
            last = Some(row);
        }
        keep(last)?;
        Ok(live)
    }
}

fn sorting(error: io::Error) -> Error {
    Error::context("sorting", error)
}

// === impl Contents ===

impl Contents {
    pub(crate) fn read(reader: &mut Reader, begins: Revision, wanted: Option<Revision>) -> io::Result<Self> {
        let mut changes = Changes(Sorter::new());
        let (mut leases, mut notes) = (HashMap::new(), HashMap::new());
        let within = |revision: Revision| wanted.is_none_or(|wanted| revision <= wanted);
        let (newest, frames) = loop {
            let Some((at, frame)) = reader.next()? else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is incomplete: its end is missing"));
            };
            match frame {
                Frame::Put(kv) if within(kv.mod_revision) => {
                    changes.add(&kv.key, kv.mod_revision, at)?;
                }
                Frame::Delete { key, revision } if within(revision) => {
                    changes.add(&key, revision, DELETED)?;
                }
                Frame::Lease { lease, seconds } => {
                    leases.insert(lease, Duration::from_secs(seconds));
                }
                Frame::Note { name, data } => {
                    notes.insert(name, data);
                }
                Frame::End { revision, frames, .. } => break (revision, frames),
                _ => {}
            }
        };
        let revision = wanted.unwrap_or(newest);
        if revision < begins || revision > newest {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it has the revisions {} to {}, not {}", begins.0, newest.0, revision.0),
            ));
        }
        let live = changes.newest()?;
        reader.rewind()?;
        Ok(Self { live, leases, notes, revision, newest, frames })
    }
}

// === impl RestoreReport ===

impl RestoreReport {
    pub(crate) fn text(&self) -> String {
        let expired = match self.expired {
            0 => String::new(),
            expired => format!(" {expired} expired objects were left out."),
        };
        let compared = if self.compared { " The digest of each resource is the one in the file." } else { "" };
        format!(
            "Restored {} objects as of revision {}.{expired}{compared}\nThe store begins at revision {}: clients that continue from an older \
             resourceVersion get 410 (Gone) and list again.\n",
            self.objects, self.revision.0, self.begins.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use binnacle_store::Op;
    use binnacle_store_embedded::OfflineStore;

    use super::*;
    use crate::backup::save;
    use crate::testing::{delete, done, opened, put};

    /// Returns keys and values in the order of their changes.
    async fn contents(store: &dyn Store) -> Vec<(String, String)> {
        let range = binnacle_store::prefix_range(b"/registry/");
        let request =
            binnacle_store::RangeRequest { range, revision: None, limit: 0, count: binnacle_store::Count::All };
        let mut kvs = store.range(request).await.expect("a range").kvs;
        kvs.sort_by_key(|kv| kv.mod_revision);
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn restores_any_revision_of_the_history() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Arc::new(EmbeddedStore::ephemeral());
        // The contents at each revision.
        let mut states: Vec<(u64, Vec<(String, String)>)> = Vec::new();
        let lease = store.grant_lease(3000).await.expect("a lease");
        for n in 0..60_u32 {
            let key = format!("/registry/configmaps/a/{}", n * 7 % 13);
            let revision = match n % 6 {
                5 => delete(&*store, &key).await,
                4 => done(&*store, &key, Op::Put { value: Bytes::from(n.to_string()), lease: Some(lease) }).await,
                _ => put(&*store, &key, n.to_string()).await,
            };
            states.push((revision.0, contents(&*store).await));
            if n == 20 {
                store.compact(revision).await.expect("a compaction");
            }
        }
        let file = dir.path().join("backup");
        let saved = save(&opened(store.clone()), &file).await.expect("a backup");
        assert!(save(&opened(store.clone()), &file).await.is_err(), "nothing is overwritten");
        let newest = saved.revision.0;
        // The last two revisions before the history, its first two, and some later ones.
        let around = [18, 19, 20, 21, 33, 46, 59];
        for (revision, state) in around.map(|n| &states[n]) {
            let data = dir.path().join(format!("at-{revision}"));
            let restored = restore(&file, &data, Some(*revision), 1000).await;
            if *revision < saved.begins.0 {
                let error = restored.err().expect("it is gone").to_string();
                assert!(error.contains("it has the revisions"), "{error}");
                assert!(!data.exists());
                continue;
            }
            let restored = restored.expect("it is restored");
            assert_eq!(restored.begins.0, newest + 1000);
            let offline = OfflineStore::open(&data.join("store"), None).expect("it opens");
            assert_eq!(contents(&*offline.store()).await, *state, "revision {revision}");
            assert_eq!(offline.store().compacted_revision().await.expect("a revision").0, newest + 1000);
            assert!(restore(&file, &data, None, 0).await.is_err(), "no store is overwritten");
        }
        assert!(restore(&file, &dir.path().join("later"), Some(newest + 1), 0).await.is_err());
        let mut damaged = std::fs::read(&file).expect("the file");
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&file, damaged).expect("the file is damaged");
        let refused = restore(&file, &dir.path().join("damaged"), None, 0).await.err().expect("it is refused");
        assert!(refused.to_string().contains("checksum"), "{refused}");
    }
}
