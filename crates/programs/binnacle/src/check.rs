//! Integrity checks of data directories and backups.

use std::fs::File;
use std::io;
use std::path::Path;

use binnacle_cli::progress::Progress;
use binnacle_registry::ROOT;
use binnacle_store::Revision;
use binnacle_store_embedded::{CheckReport, DamagedObject, Remains, check};
use serde_json::{Value, json};

use crate::Error;
use crate::backup::{Examination, examine};
use crate::digests::ResourceDigests;
use crate::location::{EtcdAccess, StoreLocation, store_dir};
use crate::text;

/// The result of a check.
pub(crate) enum Report {
    Directory(CheckReport, ResourceDigests),
    Backup(Result<Examination, io::Error>),
    /// The revision of an etcd, and the digests of its objects.
    Etcd(Revision, ResourceDigests),
}

/// Checks a store, or a backup.
pub(crate) async fn run(location: &StoreLocation, access: &EtcdAccess) -> Result<Report, Error> {
    match location {
        StoreLocation::Embedded(path) => {
            let path = path.clone();
            let checked = tokio::task::spawn_blocking(move || check_path(&path)).await;
            checked.map_err(|error| Error::context("checking", error))?
        }
        StoreLocation::Etcd(_) => {
            let opened = location.read(access).await?;
            let mut progress = Progress::new();
            let revision = opened.store.current_revision().await?;
            let report = |objects| progress.state(|| format!("reading: {objects} objects"));
            Ok(Report::Etcd(revision, ResourceDigests::read(&*opened.store, &opened.root, revision, report).await?))
        }
    }
}

/// Checks the store in a data directory, or a backup. Blocks until all of it is read.
fn check_path(path: &Path) -> Result<Report, Error> {
    if path.is_file() {
        let file = File::open(path).map_err(|error| Error::context(&path.display().to_string(), error))?;
        return Ok(Report::Backup(examine(file)));
    }
    let mut digests = ResourceDigests::new(ROOT);
    let checked = check(&store_dir(path), Some(Progress::new().report("reading the store")), &mut digests)?;
    Ok(Report::Directory(checked, digests))
}

// === impl Report ===

impl Report {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Directory(checked, _) => checked.problems.is_empty(),
            Self::Backup(examined) => examined.as_ref().is_ok_and(|examined| examined.difference.is_none()),
            Self::Etcd(..) => true,
        }
    }

    /// Returns the digests of all objects, unless some are damaged.
    fn digests(&self) -> Option<&ResourceDigests> {
        let digests = match self {
            Self::Directory(_, digests) | Self::Etcd(_, digests) => Some(digests),
            Self::Backup(examined) => examined.as_ref().ok().map(|examined| &examined.digests),
        };
        digests.filter(|_| self.is_whole())
    }

    pub(crate) fn text(&self) -> String {
        let verdict = match self {
            Self::Etcd(..) => "All objects can be read.\n",
            _ if self.is_whole() => "The data is whole.\n",
            _ => "The data is damaged.\n",
        };
        let details = match self {
            Self::Directory(checked, _) => directory(checked),
            Self::Backup(Ok(Examination { frames, begins, newest, difference, .. })) => {
                let difference = difference.iter().map(|difference| format!("damaged: {difference}\n"));
                let summary = format!("A backup with {frames} entries, revisions {} to {}.\n", begins.0, newest.0);
                std::iter::once(summary).chain(difference).collect()
            }
            Self::Backup(Err(error)) => format!("damaged: {error}\n"),
            Self::Etcd(revision, digests) => {
                format!("{} objects at revision {}.\n", digests.total().objects, revision.0)
            }
        };
        let digests = self.digests().map(|digests| format!("\n{}\n", digests.table())).unwrap_or_default();
        details + &digests + verdict
    }

    pub(crate) fn json(&self) -> Value {
        let resources = self.digests().map(ResourceDigests::json);
        match self {
            Self::Directory(checked, _) => json!({
                "whole": self.is_whole(),
                "revision": checked.revision,
                "compactedRevision": checked.compacted,
                "records": checked.records,
                "recordBytes": checked.record_bytes,
                "keys": checked.keys,
                "problems": checked.problems,
                "moreProblems": checked.more_problems,
                "damagedObjects": checked.damaged.iter().map(object).collect::<Vec<_>>(),
                "missingRevisions": checked.unidentified.iter().map(|range| [range.start, range.end - 1]).collect::<Vec<_>>(),
                "unreadableBytes": checked.unreadable_bytes,
                "salvaged": checked.salvaged,
                "resources": resources,
            }),
            Self::Backup(Ok(Examination { frames, begins, newest, difference, .. })) => json!({
                "whole": self.is_whole(),
                "entries": frames,
                "compactedRevision": begins.0,
                "revision": newest.0,
                "problems": difference.as_slice(),
                "resources": resources,
            }),
            Self::Backup(Err(error)) => json!({"whole": false, "problems": [error.to_string()]}),
            Self::Etcd(revision, _) => {
                json!({"whole": true, "revision": revision.0, "problems": [], "resources": resources})
            }
        }
    }
}

pub(crate) fn object(damaged: &DamagedObject) -> Value {
    let (segment, offset) = damaged.place.clone().unzip();
    let (remains, older) = match damaged.remains {
        Remains::Newer => ("Newer", None),
        Remains::Older(revision) => ("Older", Some(revision)),
        Remains::Deleted => ("Deleted", None),
        Remains::Nothing => ("Nothing", None),
        Remains::Unknown => ("Unknown", None),
    };
    json!({
        "key": damaged.key,
        "revision": damaged.revision,
        "segment": segment,
        "offset": offset,
        "remains": remains,
        "remainingRevision": older,
    })
}

fn directory(checked: &CheckReport) -> String {
    let mut out = format!(
        "{} records ({}) up to revision {}, history since {}, {} keys.\n",
        checked.records,
        text::bytes(checked.record_bytes),
        checked.revision,
        checked.compacted,
        checked.keys,
    );
    for problem in &checked.problems {
        out.push_str(&format!("damaged: {problem}\n"));
    }
    if checked.more_problems > 0 {
        out.push_str(&format!("and {} more\n", checked.more_problems));
    }
    if let Some(salvaged) = &checked.salvaged {
        out.push_str(&format!("{salvaged}\n"));
    }
    if checked.unreadable_bytes > 0 {
        out.push_str(&format!("{} bytes cannot be read\n", checked.unreadable_bytes));
    }
    out
}
