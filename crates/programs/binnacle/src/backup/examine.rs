//! The check of a backup.

use std::fs::File;
use std::io;

use binnacle_store::Revision;

use super::file::{DIGESTS, Frame, Reader};
use super::restore::Contents;
use crate::digests::{RecordedDigests, ResourceDigests};
use crate::sort::Sorter;

/// A complete backup.
pub(crate) struct Examination {
    /// The number of frames.
    pub(crate) frames: u64,
    pub(crate) begins: Revision,
    pub(crate) newest: Revision,
    /// Of the newest revision.
    pub(crate) digests: ResourceDigests,
    /// How the objects differ from the digests in the file. Backups of earlier versions have none.
    pub(crate) difference: Option<String>,
}

/// Reads a backup twice: for its frames, and for the objects of its newest revision.
pub(crate) fn examine(file: File) -> io::Result<Examination> {
    let (mut reader, head) = Reader::open(file)?;
    let mut contents = Contents::read(&mut reader, head.begins, None)?;
    // In the order of the file, which is faster to read than that of the changes.
    let mut offsets = Sorter::<u64>::new();
    for row in contents.live.sorted()? {
        offsets.add(row?.1, 0)?;
    }
    let mut digests = ResourceDigests::new(&head.root);
    for at in offsets.sorted()? {
        let Frame::Put(kv) = reader.read_at(at?)? else { return Err(io::ErrorKind::InvalidData.into()) };
        digests.add(&kv.key, &kv.value);
    }
    let difference = match contents.recorded()? {
        Some(recorded) => digests.difference(&recorded, "the file has"),
        None => None,
    };
    Ok(Examination { frames: contents.frames, begins: head.begins, newest: contents.newest, digests, difference })
}

impl Contents {
    /// Returns the digests of the newest revision in the file.
    pub(super) fn recorded(&self) -> io::Result<Option<RecordedDigests>> {
        let recorded = self.notes.get(DIGESTS).map(RecordedDigests::parse);
        match recorded {
            Some(None) => Err(io::Error::new(io::ErrorKind::InvalidData, "the digests in it cannot be read")),
            Some(recorded) => Ok(recorded),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use binnacle_store::{Op, Store};
    use binnacle_store_embedded::EmbeddedStore;
    use bytes::Bytes;

    use super::*;
    use crate::backup::{Writer, restore, save};
    use crate::testing::{delete, done, opened, put};

    /// Saves a store whose history begins in the middle of its writes.
    async fn backup(dir: &Path) -> (Arc<EmbeddedStore>, std::path::PathBuf) {
        let store = Arc::new(EmbeddedStore::ephemeral());
        let lease = store.grant_lease(3000).await.expect("a lease");
        for n in 0..40_u32 {
            let resource = ["configmaps", "secrets", "stable.example.com/crontabs"][n as usize % 3];
            let key = format!("/registry/{resource}/a/{}", n % 11);
            let revision = match n % 7 {
                5 => delete(&*store, &key).await,
                6 => done(&*store, &key, Op::Put { value: Bytes::from(n.to_string()), lease: Some(lease) }).await,
                _ => put(&*store, &key, n.to_string()).await,
            };
            if n == 25 {
                store.compact(revision).await.expect("a compaction");
            }
        }
        let file = dir.join("backup");
        save(&opened(store.clone()), &file).await.expect("a backup");
        (store, file)
    }

    /// Writes a backup with other frames. Its checksums are right.
    fn rewrite(from: &Path, to: &Path, mut change: impl FnMut(Frame) -> Option<Frame>) {
        let (mut reader, head) = Reader::open(File::open(from).expect("the file")).expect("a backup");
        let mut writer = Writer::begin(File::create(to).expect("a file"), head).expect("a head");
        loop {
            match reader.next().expect("a frame").expect("a frame").1 {
                Frame::End { revision, .. } => {
                    writer.finish(revision).expect("an end");
                    return;
                }
                frame => change(frame).iter().for_each(|frame| writer.write(frame).expect("a frame")),
            }
        }
    }

    fn examined(file: &Path) -> Examination {
        examine(File::open(file).expect("the file")).expect("a complete backup")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn digests_survive_backup_and_restore() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, file) = backup(dir.path()).await;
        let revision = store.current_revision().await.expect("a revision");
        let stored = ResourceDigests::read(&*store, "/registry/", revision, |_| ()).await.expect("digests").json();
        assert_eq!(stored["crontabs.stable.example.com"]["objects"], 10, "{stored}");
        let saved = examined(&file);
        assert_eq!((saved.digests.json(), saved.difference), (stored.clone(), None));
        let data = dir.path().join("data");
        let text = restore(&file, &data, None, 1000).await.expect("a store").text();
        assert!(text.contains("The digest of each resource is the one in the file."), "{text}");
        let mut checked = ResourceDigests::new("/registry/");
        let report = binnacle_store_embedded::check(&data.join("store"), None, &mut checked).expect("a store");
        assert_eq!((report.problems, checked.json()), (Vec::new(), stored));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn changed_value_is_refused_by_its_digest() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, file) = backup(dir.path()).await;
        let changed = dir.path().join("changed");
        // The last value of a Secret.
        let mut secrets = 0;
        let is_secret = |frame: &Frame| matches!(frame, Frame::Put(kv) if kv.key.starts_with(b"/registry/secrets/"));
        rewrite(&file, &changed, |frame| {
            secrets += usize::from(is_secret(&frame));
            Some(frame)
        });
        let last = secrets;
        secrets = 0;
        rewrite(&file, &changed, |mut frame| {
            secrets += usize::from(is_secret(&frame));
            if let Frame::Put(kv) = &mut frame
                && secrets == last
                && kv.key.starts_with(b"/registry/secrets/")
            {
                let mut value = kv.value.to_vec();
                value[0] ^= 1;
                kv.value = value.into();
            }
            Some(frame)
        });
        let difference = examined(&changed).difference.expect("a difference");
        assert!(difference.starts_with("secrets differs: "), "{difference}");
        let data = dir.path().join("data");
        let refused = restore(&changed, &data, None, 1000).await.err().expect("it is refused").to_string();
        assert!(refused.contains("secrets differs: ") && refused.contains("the restored store has"), "{refused}");
        assert!(!data.join("store").exists());
        // The digests are those of the newest revision.
        let (_, head) = Reader::open(File::open(&changed).expect("the file")).expect("a backup");
        let first = restore(&changed, &data, Some(head.begins.0), 1000).await.expect("a store").text();
        assert!(!first.contains("digest"), "{first}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn backups_without_digests_or_leases_are_restored() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, file) = backup(dir.path()).await;
        let (old, expired) = (dir.path().join("old"), dir.path().join("expired"));
        rewrite(&file, &old, |frame| (!matches!(frame, Frame::Note { .. })).then_some(frame));
        assert_eq!(examined(&old).difference, None);
        let text = restore(&old, &dir.path().join("data"), None, 1000).await.expect("a store").text();
        assert!(!text.contains("digest"), "{text}");
        // The objects of a lease that had expired at the end of the backup belong to the digests.
        rewrite(&file, &expired, |frame| (!matches!(frame, Frame::Lease { .. })).then_some(frame));
        let text = restore(&expired, &dir.path().join("without"), None, 1000).await.expect("a store").text();
        assert!(text.contains("expired objects were left out. The digest of each resource"), "{text}");
        let broken = dir.path().join("broken");
        rewrite(&file, &broken, |frame| match frame {
            Frame::Note { name, .. } => Some(Frame::Note { name, data: Bytes::from_static(b"{") }),
            frame => Some(frame),
        });
        let refused = restore(&broken, &dir.path().join("none"), None, 1000).await.err().expect("it is refused");
        assert!(refused.to_string().contains("the digests in it cannot be read"), "{refused}");
    }
}
