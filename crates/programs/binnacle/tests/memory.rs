//! The memory of the program is independent of the size of the store.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use binnacle_store::{Expect, Op, Store, Txn};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;
use futures::future::join_all;

/// About 190 MiB of objects. Every fifth is written twice, so that there is a history as well.
const OBJECTS: usize = 8_000;
const VALUE: usize = 24 << 10;
const AT_ONCE: usize = 250;
/// Less than the size of the objects. A migration between embedded stores uses most, about 110 MiB.
const LIMIT_KIB: u64 = 150 << 10;

async fn fill(dir: &Path) {
    let store = EmbeddedStore::open(EmbeddedOptions { lean: true, ..EmbeddedOptions::new(dir.join("store")) }).unwrap();
    for round in 0..2_u8 {
        for first in (0..OBJECTS).step_by(AT_ONCE) {
            let writes = (first..first + AT_ONCE).map(|n| {
                let key = Bytes::from(format!("/registry/configmaps/namespace-{}/object-{n}", n % 7));
                let value = Bytes::from(vec![round; VALUE]);
                let write = round == 0 || n % 5 == 0;
                let txn = Txn { key, expect: Expect::Anything, op: Op::Put { value, lease: None } };
                let store = &store;
                async move { if write { store.txn(txn).await.map(drop) } else { Ok(()) } }
            });
            for written in join_all(writes).await {
                written.unwrap();
            }
        }
    }
    store.close().await;
}

/// Runs the program. Returns its highest memory use, sampled as often as possible.
fn peak_kib(arguments: &[&str]) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_binnacle"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let said = std::fs::read_to_string(&status).unwrap_or_default();
        let line = said.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(peak).max(peak);
        if let Some(ended) = child.try_wait().unwrap() {
            // Values that repeat one byte are no objects, so the doctor exits with 1.
            assert!(
                ended.code().is_some_and(|code| code == i32::from(arguments[0] == "doctor")),
                "{arguments:?} {ended}"
            );
            return peak;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_use_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fill(&dir.path().join("data")).await;
    let (data, file) = (path("data"), path("backup"));
    let store = format!("embedded:{data}");
    let (restored, moved) = (path("restored"), format!("embedded:{}", path("moved")));
    let commands: [&[&str]; 7] = [
        &["check", &data],
        &["sizes", &store],
        &["doctor", &store],
        &["backup", &store, &file],
        &["restore", &file, &restored],
        &["migrate", "--from", &store, "--to", &moved],
        &["check", &file],
    ];
    for command in commands {
        let peak = tokio::task::block_in_place(|| peak_kib(command));
        assert!((1..LIMIT_KIB).contains(&peak), "{command:?}: {peak} KiB");
        println!("{}: {} MiB", command[0], peak >> 10);
    }
}
