//! Sequences on a simulated etcd that reorders, loses and repeats requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binnacle_store::{LeaseId, Op, Revision, StoreError};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::pipeline::{Outcome, Pipeline, Transport, Write};

/// The keys of a simulated etcd, and a counter.
#[derive(Default)]
struct SimulatedEtcd {
    values: HashMap<Bytes, Op>,
    /// The writes in the order of execution. The counter is one more than their number.
    executed: Vec<(Bytes, Op)>,
}

#[derive(Clone, Copy)]
struct Faults {
    /// The longest delay of a request, in milliseconds.
    max_delay_ms: u64,
    /// The percentage of requests that never arrive.
    lost: u64,
    /// The percentage of requests without a response.
    unanswered: u64,
    /// The percentage of requests without a response that arrive again, much later.
    repeated: u64,
}

struct FaultyTransport {
    etcd: Arc<Mutex<SimulatedEtcd>>,
    faults: Faults,
    random: AtomicU64,
}

const NO_FAULTS: Faults = Faults { max_delay_ms: 0, lost: 0, unanswered: 0, repeated: 0 };

impl SimulatedEtcd {
    fn turn(&self) -> u64 {
        self.executed.len() as u64 + 1
    }

    fn next_turn(&self) -> Outcome {
        Outcome::NextTurn { turn: self.turn(), revision: Revision(self.turn()) }
    }

    fn stage(&mut self, first: u64, writes: &[(Bytes, Op)]) -> Outcome {
        if first != self.turn() {
            return self.next_turn();
        }
        if writes.iter().any(|(_, op)| matches!(op, Op::Put { lease: Some(_), .. })) {
            return Outcome::LeaseExpired;
        }
        self.values.extend(writes.iter().cloned());
        Outcome::Staged(Revision(self.turn()))
    }

    fn take_turn(&mut self, first: u64, writes: &[(Bytes, Op)]) -> Outcome {
        let at = self.turn().checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some((key, op)) = at.and_then(|at| writes.get(at)) else { return self.next_turn() };
        let value = match op {
            Op::Delete => Op::Delete,
            Op::Put { .. } => match self.values.get(key) {
                Some(value) => value.clone(),
                None => return Outcome::KeyDeleted,
            },
        };
        self.values.remove(key);
        self.executed.push((key.clone(), value));
        self.next_turn()
    }
}

impl FaultyTransport {
    fn new(faults: Faults, seed: u64) -> (Self, Arc<Mutex<SimulatedEtcd>>) {
        let etcd = Arc::new(Mutex::new(SimulatedEtcd::default()));
        (Self { etcd: Arc::clone(&etcd), faults, random: AtomicU64::new(seed) }, etcd)
    }

    fn random(&self, below: u64) -> u64 {
        let next = |last: u64| last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = next(self.random.load(Ordering::Relaxed));
        self.random.store(random, Ordering::Relaxed);
        (random >> 33) % below
    }

    fn send(&self, execute: impl Fn(&mut SimulatedEtcd) -> Outcome + Send + 'static) -> BoxFuture<'static, Outcome> {
        let (etcd, faults) = (Arc::clone(&self.etcd), self.faults);
        let delay = Duration::from_millis(self.random(faults.max_delay_ms + 1));
        let lost = self.random(100) < faults.lost;
        let unanswered = self.random(100) < faults.unanswered;
        let repeated = self.random(100) < faults.repeated;
        async move {
            sleep(delay).await;
            if lost {
                return Outcome::Lost("it never arrived".to_owned());
            }
            let answer = execute(&mut etcd.lock());
            if !unanswered {
                return answer;
            }
            if repeated {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(300)).await;
                    execute(&mut etcd.lock());
                });
            }
            Outcome::Lost("no answer".to_owned())
        }
        .boxed()
    }
}

fn owned(writes: &[&Write]) -> Vec<(Bytes, Op)> {
    writes.iter().map(|write| (write.key.clone(), write.op.clone())).collect()
}

impl Transport for FaultyTransport {
    fn stage(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome> {
        let writes = owned(writes);
        self.send(move |etcd| etcd.stage(first, &writes))
    }

    fn take_turn(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome> {
        let writes = owned(writes);
        self.send(move |etcd| etcd.take_turn(first, &writes))
    }

    fn switch_member(&mut self) {}
}

/// Returns a write of a key that later writes reuse.
fn put(n: usize) -> Write {
    let op = match n % 5 {
        3 => Op::Delete,
        _ => Op::Put { value: Bytes::from(n.to_string()), lease: None },
    };
    let keys = if n < 1000 { 300 } else { 7 };
    Write { key: Bytes::from(format!("k{}", n % keys)), op }
}

#[tokio::test(start_paused = true)]
async fn executes_each_write_once_and_in_order() {
    let cases = [
        ("a calm day", NO_FAULTS),
        ("a little late", Faults { max_delay_ms: 3, ..NO_FAULTS }),
        ("very late", Faults { max_delay_ms: 200, ..NO_FAULTS }),
        ("lost", Faults { max_delay_ms: 3, lost: 5, ..NO_FAULTS }),
        ("unanswered", Faults { max_delay_ms: 3, unanswered: 5, repeated: 50, ..NO_FAULTS }),
        ("everything", Faults { max_delay_ms: 50, lost: 5, unanswered: 5, repeated: 100 }),
    ];
    for (name, faults) in cases {
        for seed in 0..5 {
            let (transport, etcd) = FaultyTransport::new(faults, seed);
            let mut pipeline = Pipeline::new(transport, Revision(1), Duration::from_secs(60));
            let mut expected = Vec::new();
            for n in 0..1200 {
                let write = put(n);
                expected.push((write.key.clone(), write.op.clone()));
                pipeline.add(write).await.expect(name);
                if n % 397 == 0 {
                    pipeline.flush().await.expect(name);
                    assert_eq!(etcd.lock().executed.len(), n + 1, "{name}, {seed}: it is flushed");
                }
            }
            pipeline.flush().await.expect(name);
            assert_eq!(pipeline.waiting(), 0);
            assert!(etcd.lock().executed == expected, "{name}, {seed}");
            assert_eq!(pipeline.revision(), Revision(1201), "{name}, {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_keys_of_expired_lease() {
    let (transport, etcd) = FaultyTransport::new(Faults { max_delay_ms: 3, lost: 5, unanswered: 5, repeated: 100 }, 1);
    let mut pipeline = Pipeline::new(transport, Revision(1), Duration::from_secs(60));
    for n in 0..100 {
        let lease = (n % 10 == 4).then_some(LeaseId(7));
        let op = Op::Put { value: Bytes::new(), lease };
        pipeline.add(Write { key: Bytes::from(n.to_string()), op }).await.expect("a write");
    }
    pipeline.flush().await.expect("it is flushed");
    let executed = &etcd.lock().executed;
    let deletes: Vec<_> = (0..100).filter(|n| executed[*n].1 == Op::Delete).collect();
    assert_eq!(deletes, (0..100).filter(|n| n % 10 == 4).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn stages_deleted_keys_again() {
    let (transport, etcd) = FaultyTransport::new(Faults { max_delay_ms: 3, ..NO_FAULTS }, 1);
    let mut pipeline = Pipeline::new(transport, Revision(1), Duration::from_secs(60));
    let deleter = tokio::spawn({
        let etcd = Arc::clone(&etcd);
        async move {
            for n in 0..20 {
                sleep(Duration::from_millis(2)).await;
                etcd.lock().values.remove(&Bytes::from(format!("k{}", n * 5)));
            }
        }
    });
    let mut expected = Vec::new();
    for n in 0..250 {
        let write = put(n);
        expected.push((write.key.clone(), write.op.clone()));
        pipeline.add(write).await.expect("a write");
    }
    pipeline.flush().await.expect("it is flushed");
    deleter.await.expect("it ends");
    assert!(etcd.lock().executed == expected);
}

#[tokio::test(start_paused = true)]
async fn fails_after_timeout_without_answer() {
    for (faults, want) in [
        (Faults { lost: 100, ..NO_FAULTS }, "it never arrived"),
        (Faults { unanswered: 100, ..NO_FAULTS }, "no answer"),
    ] {
        let (transport, _) = FaultyTransport::new(faults, 1);
        let mut pipeline = Pipeline::new(transport, Revision(1), Duration::from_secs(5));
        pipeline.add(put(0)).await.expect("there is room");
        // Without any response, the writes are not considered executed.
        let error = pipeline.flush().await.expect_err("nothing is answered");
        assert!(matches!(&error, StoreError::Unavailable(reason) if reason == want), "{error}");
    }
}
