//! A process that is killed while many clients write: the next process finds everything that it acknowledged.
//!
//! The test runs itself as the process to be killed. `KILL_ROUNDS` sets the number of rounds (100).

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use support::victim::{self, AcknowledgedWrites};
use support::work::Rng;

/// Not a test: the process that is killed.
#[test]
fn victim() {
    victim::run();
}

#[test]
fn survives_kill_at_any_time() {
    if victim::is_running() {
        return;
    }
    let rounds: u64 = std::env::var("KILL_ROUNDS").map_or(100, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut writes = AcknowledgedWrites::default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut opening = Duration::ZERO;
    for round in 0..rounds {
        run_and_kill(dir.path(), Duration::from_micros(rng.below(150_000)), &mut writes);
        let started = Instant::now();
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path()))
            .unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        opening = opening.max(started.elapsed());
        runtime.block_on(writes.check(&store, &format!("seed {seed}, round {round}")));
        runtime.block_on(store.close());
    }
    println!("{} writes acknowledged in {rounds} rounds, slowest opening {opening:?}", writes.acknowledged);
    assert!(writes.acknowledged > rounds, "the processes wrote");
}

/// The first start may be interrupted at any moment.
#[test]
fn survives_kill_during_creation() {
    if victim::is_running() {
        return;
    }
    let mut rng = Rng::new(std::process::id().into());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for round in 0..40 {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("some/where");
        let mut writes = AcknowledgedWrites::default();
        let mut victim = victim::command(&data).spawn().expect("the victim starts");
        let lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
        std::thread::sleep(Duration::from_micros(rng.below(30_000)));
        victim.kill().expect("the victim is killed");
        victim.wait().expect("the process ends");
        lines.map_while(Result::ok).for_each(|line| writes.record_line(&line));
        let store =
            EmbeddedStore::open(EmbeddedOptions::new(&data)).unwrap_or_else(|error| panic!("round {round}: {error}"));
        runtime.block_on(writes.check(&store, &format!("round {round}")));
    }
}

fn run_and_kill(dir: &Path, after: Duration, writes: &mut AcknowledgedWrites) {
    let mut victim = victim::command(dir).spawn().expect("the victim starts");
    let mut lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let opened = lines.by_ref().map_while(Result::ok).any(|line| line == "open");
    assert!(opened, "the victim opens its store");
    let listener = std::thread::spawn(|| lines.map_while(Result::ok).collect::<Vec<String>>());
    // The point in time is random, so there is no condition to wait for.
    std::thread::sleep(after);
    victim.kill().expect("the victim is killed");
    victim.wait().expect("the process ends");
    for line in listener.join().expect("the listener") {
        writes.record_line(&line);
    }
}
