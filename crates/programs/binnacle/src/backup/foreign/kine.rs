//! The table of kine (k3s): a row for each change, whose id is the revision.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use binnacle_registry::ROOT;
use binnacle_store::{KeyValue, LeaseId, Revision};

use super::{Each, Value, damaged};
use crate::backup::file::{Frame, Head, Writer};

/// The columns that are read, in the order of a row's values.
pub(super) const COLUMNS: &[&str] =
    &["id", "name", "created", "deleted", "create_revision", "prev_revision", "lease", "value"];
/// The name of the row whose previous revision is the compacted revision.
const COMPACTED: &[u8] = b"compact_rev_key";

struct Change {
    revision: u64,
    name: Vec<u8>,
    created: bool,
    deleted: bool,
    create_revision: u64,
    previous: u64,
    /// The TTL of the key in seconds since its last change; 0 for none.
    lease: i64,
    value: Vec<u8>,
}

/// Writes the rows as a backup. They are read twice, because the start of the history comes first in the file.
pub(super) fn convert(out: File, rows: &mut dyn FnMut(Each<'_>) -> io::Result<()>) -> io::Result<()> {
    let (mut begins, mut newest, mut found) = (0, 0, false);
    rows(&mut |row| {
        let change = Change::read(row)?;
        newest = newest.max(change.revision);
        if change.name == COMPACTED {
            begins = begins.max(change.previous);
        }
        found |= change.name.starts_with(ROOT.as_bytes());
        Ok(())
    })?;
    if !found {
        return Err(damaged(format!("the table kine has no name that begins with {ROOT}")));
    }
    let mut writer = Writer::begin(out, Head { root: ROOT.to_owned(), begins: Revision(begins) })?;
    let mut leases = BTreeSet::new();
    rows(&mut |row| {
        let change = Change::read(row)?;
        if !change.name.starts_with(ROOT.as_bytes()) || change.revision > newest {
            return Ok(());
        }
        let revision = Revision(change.revision);
        if change.deleted {
            return writer.write(&Frame::Delete { key: change.name.into(), revision });
        }
        // Keys with the same TTL share a lease, whose id is the TTL.
        let lease = (change.lease > 0).then_some(LeaseId(change.lease));
        leases.extend(lease.map(|lease| lease.0));
        writer.write(&Frame::Put(KeyValue {
            key: change.name.into(),
            value: change.value.into(),
            create_revision: if change.created { revision } else { Revision(change.create_revision) },
            mod_revision: revision,
            lease,
        }))
    })?;
    for seconds in leases {
        writer.write(&Frame::Lease { lease: LeaseId(seconds), seconds: seconds.unsigned_abs() })?;
    }
    writer.finish(Revision(newest)).map(drop)
}

// === impl Change ===

impl Change {
    fn read(row: Vec<Value>) -> io::Result<Self> {
        let Ok([id, name, created, deleted, create_revision, previous, lease, value]) = <[Value; 8]>::try_from(row)
        else {
            return Err(damaged("a row of the table kine has too few columns"));
        };
        let number = |value: &Value| {
            u64::try_from(value.integer()).map_err(|_| damaged("a row of the table kine has a negative number"))
        };
        Ok(Self {
            revision: number(&id)?,
            name: name.into_bytes(),
            created: created.integer() != 0,
            deleted: deleted.integer() != 0,
            create_revision: number(&create_revision)?,
            previous: number(&previous)?,
            lease: lease.integer(),
            value: value.into_bytes(),
        })
    }
}
