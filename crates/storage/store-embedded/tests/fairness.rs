//! Users of one store with shares of its writes: the contract, and the order of writes while the disk is busy.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use binnacle_store::{
    Expect, FairStore, KeyspaceStore, Op, Revision, Store, Txn, TxnResponse, WriteShares, WriteWaits,
};
use binnacle_store_embedded::disk::{Batch, Disk, MemoryDisk, RecordVisitor};
use binnacle_store_embedded::{EmbeddedStore, WatchOptions};
use bytes::Bytes;
use futures::future::join_all;
use futures::poll;
use parking_lot::{Condvar, Mutex};

/// A disk on which each commit waits until a test lets it pass.
#[derive(Default)]
struct HeldDisk {
    inner: MemoryDisk,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_closed: bool,
    permits: usize,
    /// True while a commit waits.
    holds: bool,
}

impl HeldDisk {
    fn set_closed(&self, is_closed: bool) {
        self.gate.lock().is_closed = is_closed;
        self.changed.notify_all();
    }

    /// Waits until a commit waits, and lets it pass.
    fn pass(&self) {
        let mut gate = self.gate.lock();
        self.changed.wait_while(&mut gate, |gate| !gate.holds || gate.permits > 0);
        gate.permits += 1;
        self.changed.notify_all();
    }
}

impl Disk for HeldDisk {
    fn commit(&self, batch: &Batch) -> io::Result<()> {
        let mut gate = self.gate.lock();
        if gate.is_closed {
            gate.holds = true;
            self.changed.notify_all();
            self.changed.wait_while(&mut gate, |gate| gate.is_closed && gate.permits == 0);
            gate.holds = false;
            gate.permits = gate.permits.saturating_sub(1);
            self.changed.notify_all();
        }
        drop(gate);
        self.inner.commit(batch)
    }

    fn erase(&self, revisions: &[u64]) -> io::Result<()> {
        self.inner.erase(revisions)
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        self.inner.read(revision)
    }

    fn scan(&self, first: u64, last: u64, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        self.inner.scan(first, last, visit)
    }

    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>> {
        self.inner.meta()
    }

    fn acknowledged(&self) -> io::Result<u64> {
        self.inner.acknowledged()
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

/// A user of a store, below a prefix.
fn user(store: &Arc<dyn Store>, shares: &Arc<WriteShares>, name: &str) -> (Arc<dyn Store>, Arc<WriteWaits>) {
    let waits = Arc::new(WriteWaits::default());
    let fair = Arc::new(FairStore::new(store.clone(), shares.share(name.into(), waits.clone())));
    (Arc::new(KeyspaceStore::new(fair, format!("/{name}"))), waits)
}

fn put(key: String, size: usize) -> Txn {
    Txn { key: key.into(), expect: Expect::Absent, op: Op::Put { value: vec![b'v'; size].into(), lease: None } }
}

fn revision(response: TxnResponse) -> u64 {
    match response {
        TxnResponse::Done { revision: Revision(revision), .. } => revision,
        TxnResponse::Unmet { .. } => panic!("the key exists"),
    }
}

mod of_one_user {
    use super::*;

    async fn store() -> ((), Arc<dyn Store>) {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
        let share = WriteShares::new().share("a".into(), Arc::default());
        ((), Arc::new(FairStore::new(store, share)))
    }

    binnacle_store::contract_tests!(store);
}

/// A write of one user comes before the waiting writes of another one, however many these are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_writes_pass_a_crowd() {
    for (crowd, size, share) in [(3000, 100, 128), (100, 700_000, 2)] {
        let disk = Arc::new(HeldDisk::default());
        let store: Arc<dyn Store> =
            Arc::new(EmbeddedStore::open_on(disk.clone(), WatchOptions::default()).expect("a store"));
        let shares = WriteShares::new();
        let (noisy, waits) = user(&store, &shares, "noisy");
        let (quiet, of_quiet) = user(&store, &shares, "quiet");
        let mut last = revision(quiet.txn(put("/first".to_owned(), 10)).await.expect("a write"));
        disk.set_closed(true);
        let writes = (0..crowd).map(|n| {
            let noisy = noisy.clone();
            tokio::spawn(async move { noisy.txn(put(format!("/{n}"), size)).await.map(revision) })
        });
        let writes: Vec<_> = writes.collect();
        while waits.waiting() < crowd - share {
            tokio::task::yield_now().await;
        }
        for n in 0..8 {
            let mut write = pin!(quiet.txn(put(format!("/{n}"), 10)));
            // Submitted, before the commit in progress passes.
            assert!(poll!(write.as_mut()).is_pending());
            let passing = tokio::task::spawn_blocking({
                let disk = disk.clone();
                move || (0..2).for_each(|_| disk.pass())
            });
            let written = revision(write.await.expect("a write"));
            passing.await.expect("no panic");
            // The rest of a share in the group in progress, and at most another one in its own group.
            let between = usize::try_from(written - last - 1).expect("few writes");
            assert!(between <= 3 * share, "{between} writes of {size} bytes before write {n}");
            last = written;
        }
        assert!(waits.waiting() > 0, "the crowd still waits");
        assert_eq!(of_quiet.writes(), 0);
        disk.set_closed(false);
        for written in join_all(writes).await {
            written.expect("no panic").expect("a write");
        }
    }
}
