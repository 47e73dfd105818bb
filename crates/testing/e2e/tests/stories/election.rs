//! Leader election on a Lease: two candidates, never two leaders, and the second takes over when the first stops
//! renewing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Server, wait_until};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};

const DURATION: Duration = Duration::from_millis(1_000);
const RENEW: Duration = Duration::from_millis(50);

/// The work of the leader, for one candidate at a time.
#[derive(Default)]
struct Work {
    leaders: AtomicUsize,
    turns: AtomicUsize,
}

/// A candidate that works like client-go's elector: it keeps the last lease that it saw, and measures its age by the
/// local clock.
struct Candidate {
    name: &'static str,
    leases: Api<Lease>,
    work: Arc<Work>,
    leads: Arc<AtomicBool>,
    /// Set to stop renewing without releasing the lease.
    silent: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_take_turns_as_leader() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    let work = Arc::new(Work::default());
    let one = Candidate::start("one", &client, &work);
    let two = Candidate::start("two", &client, &work);
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    wait_until("a leader", async || (one.leads() != two.leads()).then_some(())).await;
    let (first, second) = if one.leads() { (one, two) } else { (two, one) };
    wait_until("the leader works", async || (work.turns.load(Ordering::SeqCst) > 5).then_some(())).await;
    assert!(!second.leads());
    let held = leases.get("election").await.unwrap().spec.unwrap();
    assert_eq!((held.holder_identity.as_deref(), held.lease_transitions), (Some(first.name), Some(0)));

    first.silent.store(true, Ordering::SeqCst);
    wait_until("the other leads", async || second.leads().then_some(())).await;
    let held = leases.get("election").await.unwrap().spec.unwrap();
    assert_eq!((held.holder_identity.as_deref(), held.lease_transitions), (Some(second.name), Some(1)));
    assert!(held.renew_time >= held.acquire_time);

    // The first process returns and does not get the lease while it is renewed: both write it, and one gets a conflict
    // each time.
    first.silent.store(false, Ordering::SeqCst);
    let turns = work.turns.load(Ordering::SeqCst);
    wait_until("the new leader works", async || (work.turns.load(Ordering::SeqCst) > turns + 10).then_some(())).await;
    assert!(second.leads() && !first.leads());
    println!("refused writes: {} and {}", first.refused.load(Ordering::SeqCst), second.refused.load(Ordering::SeqCst));
}

/// Of many writers that read the same version, exactly one succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_many_writers_succeeds() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let mut lease = lease("nobody", None);
    lease.metadata.resource_version = None;
    let mut current = leases.create(&PostParams::default(), &lease).await.unwrap();
    for round in 0..20 {
        let attempts = (0..16).map(|n| {
            let mut lease = current.clone();
            lease.spec.as_mut().unwrap().holder_identity = Some(format!("candidate-{round}-{n}"));
            let leases = leases.clone();
            async move { leases.replace("election", &PostParams::default(), &lease).await }
        });
        let answers = futures::future::join_all(attempts).await;
        let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!((taken.len(), refused.len()), (1, 15));
        for error in refused.into_iter().filter_map(Result::err) {
            let kube::Error::Api(status) = error else { panic!("{error}") };
            assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        }
        current = leases.get("election").await.unwrap();
        assert_eq!(Some(&current.spec), taken[0].as_ref().ok().map(|lease| &lease.spec));
    }
}

impl Candidate {
    fn start(name: &'static str, client: &Client, work: &Arc<Work>) -> Arc<Self> {
        let leases = Api::namespaced(client.clone(), "kube-system");
        let candidate = Arc::new(Self {
            name,
            leases,
            work: work.clone(),
            leads: Arc::default(),
            silent: Arc::default(),
            refused: Arc::default(),
        });
        tokio::spawn(candidate.clone().run());
        candidate
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    async fn run(self: Arc<Self>) {
        let mut seen: Option<(LeaseSpec, Instant)> = None;
        loop {
            tokio::time::sleep(RENEW).await;
            if self.silent.load(Ordering::SeqCst) {
                // A process that hangs: its own clock shows that it no longer leads.
                self.leads.store(false, Ordering::SeqCst);
                continue;
            }
            let began = Instant::now();
            let leads = self.turn(&mut seen).await;
            self.leads.store(leads, Ordering::SeqCst);
            // Works within the time for which the lease is known to be held.
            if leads && began.elapsed() < DURATION / 2 {
                assert_eq!(self.work.leaders.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
                tokio::task::yield_now().await;
                self.work.turns.fetch_add(1, Ordering::SeqCst);
                self.work.leaders.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Takes or renews the lease if possible. Returns true if the candidate holds it.
    async fn turn(&self, seen: &mut Option<(LeaseSpec, Instant)>) -> bool {
        let Some(current) = self.leases.get_opt("election").await.unwrap() else {
            return self.wrote(self.leases.create(&PostParams::default(), &lease(self.name, None)).await);
        };
        let spec = current.spec.clone().unwrap();
        if seen.as_ref().is_none_or(|(last, _)| *last != spec) {
            *seen = Some((spec.clone(), Instant::now()));
        }
        let mine = spec.holder_identity.as_deref() == Some(self.name);
        let silent = seen.as_ref().is_some_and(|(_, since)| since.elapsed() > DURATION);
        if !mine && !silent {
            return false;
        }
        let mut next = lease(self.name, Some(&spec));
        next.metadata = current.metadata;
        self.wrote(self.leases.replace("election", &PostParams::default(), &next).await)
    }

    fn wrote(&self, answer: Result<Lease, kube::Error>) -> bool {
        match answer {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn lease(holder: &str, last: Option<&LeaseSpec>) -> Lease {
    let now = MicroTime(Timestamp::now());
    let same = last.is_some_and(|last| last.holder_identity.as_deref() == Some(holder));
    let transitions = last.and_then(|last| last.lease_transitions).unwrap_or(0);
    let mut lease = Lease::default();
    lease.metadata.name = Some("election".to_owned());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(1),
        acquire_time: if same { last.and_then(|last| last.acquire_time.clone()) } else { Some(now.clone()) },
        renew_time: Some(now),
        lease_transitions: Some(if same || last.is_none() { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    });
    lease
}
