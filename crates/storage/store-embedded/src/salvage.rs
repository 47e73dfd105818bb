//! Salvage: the intact objects of a damaged store.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::Bytes;

use crate::check::{LogExamination, examine_files};
use crate::check_report::CheckReport;
use crate::directory::{OLD_FORMAT_DIR, lock_store};
use crate::error::OpenError;
use crate::files::ReadOnlyFiles;
use crate::log::survey::{Finding, survey};
use crate::record::{self, Put, Record};
use crate::recovery::OpenFailure;

/// A store that may be damaged, from which all intact objects are read. It is locked, and nothing in it is changed.
///
/// The objects are the newest version of each key whose record is intact. A key whose newest version is lost has an
/// older one, or none. History is not read, since watchers would not detect what is missing in it.
pub struct Salvage {
    files: ReadOnlyFiles,
    examination: LogExamination,
}

/// The TTL of a lease whose own TTL is lost. It is the default for events, which are the objects with leases.
const DEFAULT_LEASE_TTL: Duration = Duration::from_secs(3600);

// === impl Salvage ===

impl Salvage {
    /// Reads the existing store in `dir`, and blocks until that is done. Fails if it is in use, or if it was written by
    /// a later version of this program.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let files = ReadOnlyFiles::new(lock_store(dir)?);
        if dir.join(OLD_FORMAT_DIR).exists() {
            return Err(OpenFailure::Format(1).of(dir.to_owned()));
        }
        match examine_files(&files, CheckReport::unlimited()) {
            Ok(examination) => Ok(Self { files, examination }),
            Err(open_failure) => Err(open_failure.of(dir.to_owned())),
        }
    }

    /// Returns the damage, with everything that is certain to be lost.
    pub fn damage(&self) -> &CheckReport {
        &self.examination.checked
    }

    /// Unlocks the store, and returns the damage.
    pub fn into_damage(self) -> CheckReport {
        self.examination.checked
    }

    /// Returns the newest revision that is certain to have existed.
    pub fn newest_revision(&self) -> Revision {
        Revision(self.examination.newest)
    }

    /// Returns the leases of all objects with their TTLs.
    pub fn leases(&self) -> HashMap<LeaseId, Duration> {
        let LogExamination { keys, facts, .. } = &self.examination;
        let time = |lease| facts.lease(lease).map_or(DEFAULT_LEASE_TTL, Duration::from_secs);
        keys.leases().map(|lease| (LeaseId(lease), time(lease))).collect()
    }

    /// Visits all objects in the order of their last changes, until the visitor fails.
    pub fn objects(&self, visit: &mut dyn FnMut(KeyValue) -> io::Result<()>) -> io::Result<()> {
        let visited = survey(&self.files, &mut |finding| {
            let Finding::Record { revision, bytes } = finding else { return Ok(()) };
            match record::decode(revision, &bytes) {
                Ok(Record::Put(put)) if self.examination.keys.is_newest(&put.key, revision) => {
                    visit(object(revision, &put))
                }
                _ => Ok(()),
            }
        });
        visited.map(drop)
    }
}

/// Returns an object that does not retain a block of the log.
fn object(revision: u64, put: &Put) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(&put.key),
        value: Bytes::copy_from_slice(&put.value),
        create_revision: Revision(put.created),
        mod_revision: Revision(revision),
        lease: (put.lease != 0).then_some(LeaseId(put.lease)),
    }
}
