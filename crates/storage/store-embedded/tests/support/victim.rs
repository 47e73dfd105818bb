//! A process that writes to a store and reports its work, and checks of the store after its end.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Expect, KeyValue, LeaseId, Op, Revision, Store, Txn, TxnResponse, prefix_range};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

use super::model::list;
use super::work::Rng;

const DIR: &str = "BINNACLE_KILL_DIR";
const CLIENTS: usize = 8;
const KEYS: u64 = 5;

/// Returns true in the process to be killed, which runs no tests.
pub(crate) fn is_running() -> bool {
    std::env::var(DIR).is_ok()
}

/// Returns the command that starts this test program again. It must have a test `victim` that calls [`run`].
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "victim", "--nocapture", "--test-threads=1"]).env(DIR, dir).stdout(Stdio::piped());
    command
}

/// Writes until the process is killed, if it was started for that.
pub(crate) fn run() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(dir)).expect("the store opens"));
        print_line("open");
        // Numbers continue after those of the last process, so that every value is written once.
        let start = store.current_revision().await.expect("a revision").0 * 1000;
        let clients = (0..CLIENTS).map(|client| tokio::spawn(write(store.clone(), client, start)));
        let clients: Vec<_> = clients.collect();
        tokio::spawn(lease(store.clone(), start));
        tokio::spawn(compact(store.clone()));
        for client in clients {
            client.await.expect("a client");
        }
    });
}

/// Prints one line at once, so that a kill does not tear it.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

async fn write(store: Arc<EmbeddedStore>, client: usize, start: u64) {
    let mut rng = Rng::new(start + client as u64);
    for number in start.. {
        let key = format!("/k/{client}/{}", number % KEYS);
        let value = format!("{number}:{}", "x".repeat(rng.below(3000) as usize));
        let op = if rng.below(10) == 0 { Op::Delete } else { Op::Put { value: value.into(), lease: None } };
        let deletes = op == Op::Delete;
        let txn = Txn { key: Bytes::from(key.clone()), expect: Expect::Anything, op };
        print_line(&format!("begin {key} {number}"));
        match store.txn(txn).await.expect("a write") {
            TxnResponse::Done { revision, .. } => {
                let verb = if deletes { "deleted" } else { "put" };
                print_line(&format!("{verb} {key} {number} {}", revision.0));
            }
            TxnResponse::Unmet { .. } => panic!("anything was expected"),
        }
    }
}

/// Creates groups of keys one by one, and deletes each group at once by its lease.
async fn lease(store: Arc<EmbeddedStore>, start: u64) {
    for group in start.. {
        let lease = store.grant_lease(3600).await.expect("a lease");
        for n in 0..3 {
            let op = Op::Put { value: Bytes::from_static(b"leased"), lease: Some(lease) };
            let key = Bytes::from(format!("/g/{group}/{n}"));
            store.txn(Txn { key, expect: Expect::Absent, op }).await.expect("a put");
        }
        print_line(&format!("group {group} {}", lease.0));
        store.revoke_lease(lease).await.expect("a revocation");
        print_line(&format!("revoked {group} 0"));
    }
}

async fn compact(store: Arc<EmbeddedStore>) {
    loop {
        tokio::time::sleep(Duration::from_millis(15)).await;
        let revision = store.current_revision().await.expect("a revision");
        let target = Revision(revision.0.saturating_sub(200));
        if target > store.compacted_revision().await.expect("a revision") {
            store.compact(target).await.expect("a compaction");
            print_line(&format!("compacted {} 0", target.0));
        }
    }
}

/// The reports of all killed processes.
#[derive(Default)]
pub(crate) struct AcknowledgedWrites {
    /// By key: the newest acknowledged number and revision. The number is `None` after a deletion.
    keys: HashMap<String, (Option<u64>, u64)>,
    /// By key: the number of the last write that was started.
    started: HashMap<String, u64>,
    /// Acknowledged puts by revision.
    puts: HashMap<u64, (String, u64)>,
    groups: HashMap<u64, i64>,
    revoked: Vec<u64>,
    revision: u64,
    compacted: u64,
    pub(crate) acknowledged: u64,
}

impl AcknowledgedWrites {
    pub(crate) fn record_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[..] {
            ["begin", key, _] => drop(self.started.insert(key.to_owned(), number(2))),
            ["put", key, _, _] => {
                self.keys.insert(key.to_owned(), (Some(number(2)), number(3)));
                self.puts.insert(number(3), (key.to_owned(), number(2)));
                self.heard(number(3));
            }
            ["deleted", key, _, _] => {
                self.keys.insert(key.to_owned(), (None, number(3)));
                self.heard(number(3));
            }
            ["group", _, lease] => drop(self.groups.insert(number(1), lease.parse().expect("a lease"))),
            ["revoked", _, _] => self.revoked.push(number(1)),
            ["compacted", _, _] => self.compacted = number(1),
            _ => {}
        }
    }

    fn heard(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
        self.acknowledged += 1;
    }

    pub(crate) async fn check(&mut self, store: &EmbeddedStore, context: &str) {
        let revision = store.current_revision().await.expect("a revision").0;
        assert!(
            revision >= self.revision,
            "{context}: revision {} was acknowledged, now it is {revision}",
            self.revision
        );
        let compacted = store.compacted_revision().await.expect("a revision").0;
        assert!(compacted >= self.compacted, "{context}: compactions do not go back");

        let live = list(store, &prefix_range(b"/k/"), None).await.expect("a list");
        let live: HashMap<String, KeyValue> =
            live.into_iter().map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv)).collect();
        for (key, (number, acknowledged)) in &self.keys {
            let found = live.get(key).map(|kv| (number_of(kv), kv.mod_revision.0));
            let started = self.started[key];
            match found {
                Some((found, at)) if Some(found) == *number => assert_eq!(at, *acknowledged, "{context}: {key}"),
                // The write in progress may have been executed.
                Some((found, at)) => {
                    assert!(found == started && at > *acknowledged, "{context}: {key} is {found}@{at}")
                }
                None => assert!(number.is_none() || *number != Some(started), "{context}: {key} is lost"),
            }
        }
        for (key, kv) in &live {
            let known = self.keys.contains_key(key) || self.started.get(key) == Some(&number_of(kv));
            assert!(known, "{context}: {key} was never written");
        }
        self.check_history(store, compacted, context).await;
        self.check_groups(store, context).await;
        // The results of the writes in progress are known now.
        for (key, kv) in live {
            self.keys.insert(key, (Some(number_of(&kv)), kv.mod_revision.0));
        }
        self.revision = revision;
        self.compacted = compacted;
    }

    /// Checks that every acknowledged put can be read at its revision, and only there.
    async fn check_history(&mut self, store: &EmbeddedStore, compacted: u64, context: &str) {
        self.puts.retain(|revision, _| *revision >= compacted);
        for (revision, (key, number)) in &self.puts {
            let read = store.get(Bytes::from(key.clone()), Some(Revision(*revision))).await;
            let (kv, _) = read.unwrap_or_else(|error| panic!("{context}: {key}@{revision}: {error}"));
            let kv = kv.unwrap_or_else(|| panic!("{context}: {key}@{revision} is lost"));
            assert_eq!((number_of(&kv), kv.mod_revision.0), (*number, *revision), "{context}: {key}");
        }
    }

    /// Checks that a revocation deletes all keys or none.
    async fn check_groups(&mut self, store: &EmbeddedStore, context: &str) {
        for (group, lease) in std::mem::take(&mut self.groups) {
            let left = list(store, &prefix_range(format!("/g/{group}/").as_bytes()), None).await.expect("a list").len();
            if self.revoked.contains(&group) {
                assert_eq!(left, 0, "{context}: group {group} was revoked");
            } else {
                assert!(left == 0 || left == 3, "{context}: {left} keys of group {group} are left");
                let revoked = store.revoke_lease(LeaseId(lease)).await;
                assert_eq!(revoked.is_ok(), left == 3, "{context}: the lease goes with its keys");
            }
        }
        self.revoked.clear();
    }
}

fn number_of(kv: &KeyValue) -> u64 {
    let text = String::from_utf8_lossy(&kv.value);
    text.split(':').next().and_then(|number| number.parse().ok()).expect("a value that was written")
}
