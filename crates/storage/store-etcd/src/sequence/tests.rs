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

use super::flight::{Attempt, Carrier, Flight, Write};

/// The keys of a simulated etcd, and a counter.
#[derive(Default)]
struct Keys {
    values: HashMap<Bytes, Op>,
    /// The writes in the order in which they were carried out; the counter is one more than their number.
    done: Vec<(Bytes, Op)>,
}

#[derive(Clone, Copy)]
struct Faults {
    /// The longest delay of a request, in milliseconds.
    late: u64,
    /// The number of requests in a hundred that never arrive.
    lost: u64,
    /// The number of requests in a hundred without an answer.
    unanswered: u64,
    /// The number of requests without an answer, in a hundred, that arrive once more, much later.
    repeated: u64,
}

struct Shuffler {
    keys: Arc<Mutex<Keys>>,
    faults: Faults,
    random: AtomicU64,
}

const CALM: Faults = Faults { late: 0, lost: 0, unanswered: 0, repeated: 0 };

impl Keys {
    fn turn(&self) -> u64 {
        self.done.len() as u64 + 1
    }

    fn reached(&self) -> Attempt {
        Attempt::Reached { turn: self.turn(), revision: Revision(self.turn()) }
    }

    fn lay_out(&mut self, first: u64, writes: &[(Bytes, Op)]) -> Attempt {
        if first != self.turn() {
            return self.reached();
        }
        if writes.iter().any(|(_, op)| matches!(op, Op::Put { lease: Some(_), .. })) {
            return Attempt::LeaseEnded;
        }
        self.values.extend(writes.iter().cloned());
        Attempt::LaidOut(Revision(self.turn()))
    }

    fn take_turn(&mut self, first: u64, writes: &[(Bytes, Op)]) -> Attempt {
        let at = self.turn().checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some((key, op)) = at.and_then(|at| writes.get(at)) else { return self.reached() };
        let value = match op {
            Op::Delete => Op::Delete,
            Op::Put { .. } => match self.values.get(key) {
                Some(value) => value.clone(),
                None => return Attempt::KeyGone,
            },
        };
        self.values.remove(key);
        self.done.push((key.clone(), value));
        self.reached()
    }
}

impl Shuffler {
    fn new(faults: Faults, seed: u64) -> (Self, Arc<Mutex<Keys>>) {
        let keys = Arc::new(Mutex::new(Keys::default()));
        (Self { keys: Arc::clone(&keys), faults, random: AtomicU64::new(seed) }, keys)
    }

    fn random(&self, below: u64) -> u64 {
        let next = |last: u64| last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = next(self.random.load(Ordering::Relaxed));
        self.random.store(random, Ordering::Relaxed);
        (random >> 33) % below
    }

    fn send(&self, carry_out: impl Fn(&mut Keys) -> Attempt + Send + 'static) -> BoxFuture<'static, Attempt> {
        let (keys, faults) = (Arc::clone(&self.keys), self.faults);
        let late = Duration::from_millis(self.random(faults.late + 1));
        let lost = self.random(100) < faults.lost;
        let unanswered = self.random(100) < faults.unanswered;
        let repeated = self.random(100) < faults.repeated;
        async move {
            sleep(late).await;
            if lost {
                return Attempt::Lost("it never arrived".to_owned());
            }
            let answer = carry_out(&mut keys.lock());
            if !unanswered {
                return answer;
            }
            if repeated {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(300)).await;
                    carry_out(&mut keys.lock());
                });
            }
            Attempt::Lost("no answer".to_owned())
        }
        .boxed()
    }
}

fn owned(writes: &[&Write]) -> Vec<(Bytes, Op)> {
    writes.iter().map(|write| (write.key.clone(), write.op.clone())).collect()
}

impl Carrier for Shuffler {
    fn lay_out(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Attempt> {
        let writes = owned(writes);
        self.send(move |keys| keys.lay_out(first, &writes))
    }

    fn take_turn(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Attempt> {
        let writes = owned(writes);
        self.send(move |keys| keys.take_turn(first, &writes))
    }

    fn turn_elsewhere(&mut self) {}
}

/// Returns a write of a key that later writes use again.
fn put(n: usize) -> Write {
    let op = match n % 5 {
        3 => Op::Delete,
        _ => Op::Put { value: Bytes::from(n.to_string()), lease: None },
    };
    let keys = if n < 1000 { 300 } else { 7 };
    Write { key: Bytes::from(format!("k{}", n % keys)), op }
}

#[tokio::test(start_paused = true)]
async fn everything_is_done_once_and_in_order() {
    let cases = [
        ("a calm day", CALM),
        ("a little late", Faults { late: 3, ..CALM }),
        ("very late", Faults { late: 200, ..CALM }),
        ("lost", Faults { late: 3, lost: 5, ..CALM }),
        ("unanswered", Faults { late: 3, unanswered: 5, repeated: 50, ..CALM }),
        ("everything", Faults { late: 50, lost: 5, unanswered: 5, repeated: 100 }),
    ];
    for (name, faults) in cases {
        for seed in 0..5 {
            let (shuffler, keys) = Shuffler::new(faults, seed);
            let mut flight = Flight::new(shuffler, Revision(1), Duration::from_secs(60));
            let mut wanted = Vec::new();
            for n in 0..1200 {
                let write = put(n);
                wanted.push((write.key.clone(), write.op.clone()));
                flight.add(write).await.expect(name);
                if n % 397 == 0 {
                    flight.flush().await.expect(name);
                    assert_eq!(keys.lock().done.len(), n + 1, "{name}, {seed}: it is flushed");
                }
            }
            flight.flush().await.expect(name);
            assert_eq!(flight.waiting(), 0);
            assert!(keys.lock().done == wanted, "{name}, {seed}");
            assert_eq!(flight.revision(), Revision(1201), "{name}, {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_an_ended_lease_is_deleted() {
    let (shuffler, keys) = Shuffler::new(Faults { late: 3, lost: 5, unanswered: 5, repeated: 100 }, 1);
    let mut flight = Flight::new(shuffler, Revision(1), Duration::from_secs(60));
    for n in 0..100 {
        let lease = (n % 10 == 4).then_some(LeaseId(7));
        let op = Op::Put { value: Bytes::new(), lease };
        flight.add(Write { key: Bytes::from(n.to_string()), op }).await.expect("a write");
    }
    flight.flush().await.expect("it is flushed");
    let done = &keys.lock().done;
    let deletes: Vec<_> = (0..100).filter(|n| done[*n].1 == Op::Delete).collect();
    assert_eq!(deletes, (0..100).filter(|n| n % 10 == 4).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_goes_away_meanwhile_is_laid_out_again() {
    let (shuffler, keys) = Shuffler::new(Faults { late: 3, ..CALM }, 1);
    let mut flight = Flight::new(shuffler, Revision(1), Duration::from_secs(60));
    let robber = tokio::spawn({
        let keys = Arc::clone(&keys);
        async move {
            for n in 0..20 {
                sleep(Duration::from_millis(2)).await;
                keys.lock().values.remove(&Bytes::from(format!("k{}", n * 5)));
            }
        }
    });
    let mut wanted = Vec::new();
    for n in 0..250 {
        let write = put(n);
        wanted.push((write.key.clone(), write.op.clone()));
        flight.add(write).await.expect("a write");
    }
    flight.flush().await.expect("it is flushed");
    robber.await.expect("it ends");
    assert!(keys.lock().done == wanted);
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    for (faults, want) in
        [(Faults { lost: 100, ..CALM }, "it never arrived"), (Faults { unanswered: 100, ..CALM }, "no answer")]
    {
        let (shuffler, _) = Shuffler::new(faults, 1);
        let mut flight = Flight::new(shuffler, Revision(1), Duration::from_secs(5));
        flight.add(put(0)).await.expect("there is room");
        // Without any answer, the writes are not known to be carried out.
        let error = flight.flush().await.expect_err("nothing is answered");
        assert!(matches!(&error, StoreError::Unavailable(reason) if reason == want), "{error}");
    }
}
