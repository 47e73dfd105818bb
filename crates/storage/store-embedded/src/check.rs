//! Detection of damage in a store that is not in use. A check covers everything that is checked at startup, and more,
//! and does not stop at the first problem. The store is read in place, and nothing is written.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::check_report::CheckReport;
use crate::directory::{OLD_FORMAT_DIR, lock_store};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::files::{Files, ReadOnlyFiles};
use crate::log::acknowledged::NAME as HEAD;
use crate::log::survey::survey;
use crate::log::{LogDisk, LogOptions};
use crate::options::OnReading;
use crate::recovery::{Facts, OpenFailure};
use crate::replay::{Keys, Replay, Tally};
use crate::salvage_mark::mark;

/// Reads the whole store in `dir` without changing it. `on_reading` receives the progress. Fails if the store cannot be
/// read at all or is in use.
pub fn check(dir: &Path, on_reading: Option<OnReading>, tally: &mut dyn Tally) -> Result<CheckReport, OpenError> {
    let files = ReadOnlyFiles::new(lock_store(dir)?);
    if dir.join(OLD_FORMAT_DIR).exists() {
        return Err(OpenFailure::Format(1).of(dir.to_owned()));
    }
    let salvaged = mark(dir).map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let mut report = check_in(Arc::new(files), on_reading, tally);
    report.salvaged = salvaged;
    Ok(report)
}

/// Checks the caller's files.
pub fn check_in(files: Arc<dyn Files>, on_reading: Option<OnReading>, tally: &mut dyn Tally) -> CheckReport {
    let mut checked = CheckReport::default();
    let opened = LogDisk::open(files.clone(), LogOptions::default()).map_err(OpenFailure::from);
    let examination = opened.map(|disk| checked = examine(&disk, on_reading.as_ref(), tally));
    let unknown = matches!(examination, Err(OpenFailure::Format(_)));
    if let Err(open_failure) = examination {
        checked.open_failure(open_failure);
    }
    if checked.problems.is_empty() || unknown {
        return checked;
    }
    // A start stops at the first damage. Here the files are read one by one to find more damage, and the records behind
    // it.
    let mut all = match examine_files(&*files, CheckReport::default()) {
        Ok(examination) => examination.checked,
        Err(open_failure) => {
            let mut all = CheckReport::default();
            all.open_failure(open_failure);
            all
        }
    };
    for problem in checked.problems {
        if !all.problems.contains(&problem) {
            all.problem(problem);
        }
    }
    all.more_problems += checked.more_problems;
    all
}

/// A damaged log, as far as it can be read.
pub(crate) struct LogExamination {
    pub(crate) checked: CheckReport,
    pub(crate) keys: Keys,
    /// The facts besides the log, as far as they are intact.
    pub(crate) facts: Facts,
    /// The newest revision that is certain to have existed.
    pub(crate) newest: u64,
}

/// Checks a damaged log, as far as it can be read, and adds the findings to `checked`.
pub(crate) fn examine_files(files: &dyn Files, mut checked: CheckReport) -> Result<LogExamination, OpenFailure> {
    // The notes of a damaged log are complete only at its end.
    let result = survey(files, &mut |_| Ok(()))?;
    let mut facts = Facts::default();
    for (name, value) in &result.notes {
        if let Err(open_failure) = facts.add(name, value) {
            checked.open_failure(open_failure);
        }
    }
    let mut uncounted = ();
    let mut replay = Replay::new(facts.marker.revision, checked, &mut uncounted);
    survey(files, &mut |finding| {
        replay.add_finding(finding);
        Ok(())
    })?;
    replay.compare_kept(facts.marker);
    replay.compare_leases(|lease| facts.has_lease(lease));
    let acknowledged = result.acknowledged.map_or(0, |acknowledged| acknowledged.revision);
    let (mut checked, keys) = replay.finish(acknowledged);
    let newest = checked.revision.max(acknowledged);
    // The first start may have been interrupted before it wrote anything.
    if checked.records > 0 && !files.list()?.iter().any(|name| name == HEAD) {
        checked.problem("the file \"head\" is missing".to_owned());
    }
    Ok(LogExamination { checked, keys, facts, newest })
}

/// Checks a log that can be opened.
fn examine(disk: &dyn Disk, on_reading: Option<&OnReading>, tally: &mut dyn Tally) -> CheckReport {
    let mut checked = CheckReport::default();
    let facts = match Facts::read(disk) {
        Ok(facts) => Some(facts),
        Err(open_failure) => {
            checked.open_failure(open_failure);
            None
        }
    };
    let compacted = facts.as_ref().map_or(0, |facts| facts.marker.revision);
    let mut replay = Replay::new(compacted, checked, tally);
    let (mut bytes, all) = (0, disk.stored_bytes());
    let scanned = disk.load(&mut |revision, record| {
        bytes += record.len() as u64;
        if let Some(report) = on_reading {
            report(bytes.min(all), all);
        }
        replay.add(revision, &record);
        ControlFlow::Continue(())
    });
    if let Some(report) = on_reading {
        report(all, all);
    }
    if let Err(error) = scanned {
        replay.checked.problem(format!("the log cannot be read: {error}"));
    }
    let acknowledged = disk.acknowledged().unwrap_or_else(|error| {
        replay.checked.problem(format!("head: {error}"));
        0
    });
    // If notes or records are damaged, a difference between them proves nothing.
    if let Some(facts) = facts.filter(|_| replay.checked.problems.is_empty()) {
        replay.compare_kept(facts.marker);
        replay.compare_leases(|lease| facts.has_lease(lease));
    }
    replay.finish(acknowledged).0
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::check_report::MAX_PROBLEMS;
    use crate::disk::{Batch, MemoryDisk};
    use crate::record::{Deletion, Put, encode_delete, encode_put};
    use crate::recovery::lease_fact;

    fn put(revision: u64, key: &'static str, previous: u64, created: u64) -> (u64, Bytes) {
        let (key, value) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(b"value"));
        (revision, encode_put(revision, &Put { key, value, created, previous, lease: 0 }).0)
    }

    fn delete(revision: u64, key: &'static str, previous: u64) -> (u64, Bytes) {
        (revision, encode_delete(revision, &[Deletion { key: Bytes::from_static(key.as_bytes()), previous }]))
    }

    fn problems(records: Vec<(u64, Bytes)>, meta: Vec<(Bytes, Option<Bytes>)>) -> Vec<String> {
        let disk = MemoryDisk::default();
        disk.commit(&Batch { records, meta }).expect("memory takes it");
        examine(&disk, None, &mut ()).problems
    }

    #[test]
    fn reports_all_findings() {
        let torn = |(revision, bytes): (u64, Bytes)| (revision, bytes.slice(..bytes.len() - 1));
        let whole =
            || vec![put(2, "a", 0, 2), put(3, "b", 0, 3), put(4, "a", 2, 2), delete(5, "b", 3), put(6, "b", 0, 6)];
        assert_eq!(problems(whole(), Vec::new()), [""; 0]);
        let mut several = whole();
        several[0] = torn(put(2, "a", 0, 2));
        several.remove(2);
        several.push(put(9, "c", 0, 9));
        assert_eq!(
            problems(several, Vec::new()),
            [
                "revision 2: the checksum does not match",
                "the log lacks revision 4",
                "the log lacks the revisions 7 to 8",
            ]
        );
        assert_eq!(
            problems(vec![put(2, "a", 0, 2), put(3, "a", 0, 3), delete(4, "b", 1), put(5, "a", 3, 2)], Vec::new()),
            [
                "revision 3: it says that it follows revision 0 of a key created at 3, but the log has 2 and 2",
                "revision 4: it deletes the version of revision 1, but the log has 0",
                "revision 5: it says that it follows revision 3 of a key created at 2, but the log has 3 and 3",
            ]
        );
        let unknown = vec![(Bytes::from_static(b"mystery"), Some(Bytes::new()))];
        assert_eq!(problems(whole(), unknown), ["there is an unknown note \"mystery\""]);
        let broken = lease_fact(7, Some(10)).1.map(|value| value.slice(1..));
        let lease = vec![(lease_fact(7, None).0, broken)];
        assert_eq!(problems(whole(), lease).len(), 1);
        let many = (0..300).map(|n| torn(put(n + 2, "a", 0, 2))).collect();
        assert_eq!(problems(many, Vec::new()).len(), MAX_PROBLEMS);
    }
}
