//! Integrity checks of data directories and backups.

use std::fs::File;
use std::io;
use std::path::Path;

use binnacle_cli::progress::Progress;
use binnacle_store::Revision;
use binnacle_store_embedded::{CheckReport, DamagedObject, Remains, check};
use serde_json::{Value, json};

use crate::Error;

use crate::backup::examine;
use crate::location::store_dir;
use crate::text;

/// The result of a check.
pub(crate) enum Report {
    Directory(CheckReport),
    /// The number of frames and the first and newest revision of a backup, or its error.
    Backup(Result<(u64, Revision, Revision), io::Error>),
}

/// Checks the store in a data directory, or a backup. Blocks until all of it is read.
pub(crate) fn run(path: &Path) -> Result<Report, Error> {
    if path.is_file() {
        let file = File::open(path).map_err(|error| Error::context(&path.display().to_string(), error))?;
        return Ok(Report::Backup(examine(file)));
    }
    Ok(Report::Directory(check(&store_dir(path), Some(Progress::new().report("reading the store")))?))
}

// === impl Report ===

impl Report {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Directory(checked) => checked.problems.is_empty(),
            Self::Backup(examined) => examined.is_ok(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let verdict = if self.is_whole() { "The data is whole.\n" } else { "The data is damaged.\n" };
        let details = match self {
            Self::Directory(checked) => directory(checked),
            Self::Backup(Ok((frames, begins, newest))) => {
                format!("A backup with {frames} entries, revisions {} to {}.\n", begins.0, newest.0)
            }
            Self::Backup(Err(error)) => format!("damaged: {error}\n"),
        };
        details + verdict
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Directory(checked) => json!({
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
            }),
            Self::Backup(Ok((frames, begins, newest))) => {
                json!({"whole": true, "entries": frames, "compactedRevision": begins.0, "revision": newest.0, "problems": []})
            }
            Self::Backup(Err(error)) => json!({"whole": false, "problems": [error.to_string()]}),
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
