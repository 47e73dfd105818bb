//! Backup of a store, in use or not, into a file.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use binnacle_cli::progress::Progress;
use binnacle_store::{Event, LeaseId, Pages, Revision, StoreError, WatchMessage};
use futures::StreamExt;

use super::file::{DIGESTS, Frame, Head, Writer};
use crate::Error;
use crate::digests::ResourceDigests;
use crate::location::ReadableStore;
use crate::text;

/// The result of a backup.
pub(crate) struct BackupReport {
    pub(super) begins: Revision,
    pub(super) revision: Revision,
    keys: u64,
    changes: u64,
    bytes: u64,
}

/// The number of attempts if compactions remove revisions that are being read.
const ATTEMPTS: usize = 5;

/// Saves a store. The file only appears when it is complete and durable.
pub(crate) async fn save(opened: &ReadableStore, path: &Path) -> Result<BackupReport, Error> {
    let about = |error: io::Error| Error::context(&path.display().to_string(), error);
    refuse_existing(path)?;
    let unfinished = UnfinishedFile::next_to(path);
    let mut progress = Progress::new();
    let mut attempt = 1;
    let saved = loop {
        match unfinished.write(opened, &mut progress).await {
            Err(Failure::Store(StoreError::Compacted { .. })) if attempt < ATTEMPTS => attempt += 1,
            Err(Failure::Store(error)) => return Err(Error::context("reading the store", error)),
            Err(Failure::File(error)) => return Err(about(error)),
            Ok(saved) => break saved,
        }
    };
    unfinished.rename_to(path).map_err(about)?;
    Ok(saved)
}

/// Fails if the file exists.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), Error> {
    if path.exists() {
        let path = path.display();
        return Err(Error::new(format!("{path} already exists: use another file name, or remove it first")));
    }
    Ok(())
}

/// The temporary file of a backup, which is removed on drop.
pub(crate) struct UnfinishedFile(PathBuf);

enum Failure {
    Store(StoreError),
    File(io::Error),
}

// === impl UnfinishedFile ===

impl UnfinishedFile {
    pub(crate) fn next_to(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".unfinished");
        Self(name.into())
    }

    /// Creates the file, for its owner only, since it may contain secrets.
    pub(crate) fn create(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.0)
    }

    async fn write(&self, opened: &ReadableStore, progress: &mut Progress) -> Result<BackupReport, Failure> {
        let file = self.create()?;
        let store = &*opened.store;
        let begins = store.compacted_revision().await?;
        let mut writer = Writer::begin(file, Head { root: opened.root.clone(), begins })?;
        let (mut keys, mut changes) = (0, 0);
        let mut digests = ResourceDigests::new(&opened.root);
        let mut leases: HashSet<LeaseId> = HashSet::new();
        if begins > Revision(0) {
            let mut pages = Pages::new(store, opened.range(), begins).streamed();
            while let Some(page) = pages.next().await? {
                for kv in page {
                    leases.extend(kv.lease);
                    digests.add(&kv.key, &kv.value);
                    writer.write(&Frame::Put(kv))?;
                    keys += 1;
                }
                progress.state(|| format!("saving: {keys} keys, {}", text::bytes(writer.bytes)));
            }
        }
        let mut watch = store.watch(opened.range(), begins).await?;
        let barrier = watch.control.barrier().await?;
        let mut reached = Revision(0);
        while reached < barrier.last_event {
            let message = watch.messages.next().await.unwrap_or(Err(StoreError::Closed))?;
            let WatchMessage::Events(events) = message else { continue };
            for event in events.into_iter().filter(|event| event.revision() <= barrier.current) {
                reached = event.revision();
                count(&mut digests, &event).ok_or(StoreError::Compacted { compacted: begins })?;
                let frame = match event {
                    Event::Put { kv, .. } => {
                        leases.extend(kv.lease);
                        Frame::Put(kv)
                    }
                    Event::Delete { key, revision, .. } => Frame::Delete { key, revision },
                };
                writer.write(&frame)?;
                changes += 1;
            }
            progress.state(|| format!("saving: {keys} keys and {changes} changes, {}", text::bytes(writer.bytes)));
        }
        for lease in leases {
            match store.lease_remaining(lease).await {
                Ok(left) => writer.write(&Frame::Lease { lease, seconds: left.as_secs().max(1) })?,
                Err(StoreError::LeaseNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        writer.write(&Frame::Note { name: DIGESTS.to_owned(), data: digests.json().to_string().into() })?;
        let bytes = writer.finish(barrier.current)?;
        Ok(BackupReport { begins, revision: barrier.current, keys, changes, bytes })
    }

    pub(crate) fn rename_to(&self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()
    }
}

/// Adds a change to the digests. Returns `None` if the replaced version was compacted in the meantime.
fn count(digests: &mut ResourceDigests, event: &Event) -> Option<()> {
    match event {
        Event::Put { kv, previous } => {
            match previous {
                Some(previous) => digests.remove(&previous.key, &previous.value),
                None if kv.create_revision == kv.mod_revision => {}
                None => return None,
            }
            digests.add(&kv.key, &kv.value);
        }
        Event::Delete { previous, .. } => {
            let previous = previous.as_ref()?;
            digests.remove(&previous.key, &previous.value);
        }
    }
    Some(())
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // If it was renamed, there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

// === impl BackupReport ===

impl BackupReport {
    pub(crate) fn text(&self) -> String {
        format!(
            "Saved {} at revision {}: {} keys as of revision {} and {} changes since.\n",
            text::bytes(self.bytes),
            self.revision.0,
            self.keys,
            self.begins.0,
            self.changes,
        )
    }
}
