//! A process that is recorded while many clients write: if the power had failed at any system call, everything
//! acknowledged before the call would still exist.
//!
//! Unlike the simulated files of the crash tests, this uses real ones. `POWER_CUTS` sets the number of tested points in
//! time (60).

mod support;

use std::io::{BufRead, BufReader};
use std::time::Duration;

use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use support::recording::Recording;
use support::victim::{self, AcknowledgedWrites};
use support::work::Rng;

/// Not a test: the process that is recorded.
#[test]
fn victim() {
    victim::run();
}

#[test]
fn survives_power_failure_at_any_call() {
    if victim::is_running() || !Recording::available() {
        return;
    }
    let cuts: u64 = std::env::var("POWER_CUTS").map_or(60, |text| text.parse().expect("a number"));
    let place = tempfile::tempdir().expect("a directory");
    let (dir, record) = (place.path().join("store"), place.path().join("record"));
    std::fs::create_dir(&dir).expect("a directory");
    let mut child = Recording::around(&victim::command(&dir), &record, &dir).spawn().expect("the recorder starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (mut opened, mut puts) = (None, 0);
    for line in lines.map_while(Result::ok) {
        puts += usize::from(line.starts_with("put"));
        if line == "open" {
            opened = Some(std::time::Instant::now());
        }
        // Long enough for segments to be started and rewritten.
        if puts >= 3000 || opened.is_some_and(|since| since.elapsed() > Duration::from_secs(20)) {
            break;
        }
    }
    child.kill().expect("the victim is killed");
    child.wait().expect("the process ends");

    let recording = Recording::read(&record);
    let seed = u64::from(std::process::id());
    println!("seed {seed}, {} calls, {puts} puts", recording.len());
    let mut rng = Rng::new(seed);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut acknowledged = 0;
    for cut in 0..cuts {
        let before = rng.below(recording.len() as u64 + 1) as usize;
        let left = place.path().join(format!("left-{cut}"));
        std::fs::create_dir(&left).expect("a directory");
        recording.cut(before, &mut rng, &left);
        let mut writes = AcknowledgedWrites::default();
        recording.printed(before).flat_map(str::lines).for_each(|line| writes.record_line(line));
        let context = format!("seed {seed}, cut {cut} before call {before}");
        let store =
            EmbeddedStore::open(EmbeddedOptions::new(&left)).unwrap_or_else(|error| panic!("{context}: {error}"));
        runtime.block_on(writes.check(&store, &context));
        acknowledged += writes.acknowledged;
        runtime.block_on(store.close());
        std::fs::remove_dir_all(&left).expect("the directory goes");
    }
    assert!(acknowledged > cuts, "writes were acknowledged before the cuts");
}

/// Directories that the store creates are durable in their parents before the store is used.
#[test]
fn new_directories_are_durable() {
    if victim::is_running() || !Recording::available() {
        return;
    }
    for parent in ["", "outer", "outer/inner"] {
        let place = tempfile::tempdir().expect("a directory");
        let (dir, record) = (place.path().join("outer/inner/store"), tempfile::NamedTempFile::new().expect("a file"));
        let parent = place.path().join(parent);
        let parent = parent.components().collect::<std::path::PathBuf>();
        let mut child = Recording::around(&victim::command(&dir), record.path(), &parent).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line == "open")), "it opens");
        child.kill().expect("the victim is killed");
        child.wait().expect("the process ends");
        let syncs = Recording::read(record.path()).directory_syncs_before("open");
        assert!(syncs > 0, "{} is not synced", parent.display());
    }
}
