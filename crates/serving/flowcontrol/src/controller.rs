//! The flow controller of all schemas and levels: classifies requests, admits them, and moves seats between levels.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use binnacle_meta::Text;
use binnacle_metrics::Registry;
use binnacle_request::{FlowNames, Query, RequestInfo, User};
use parking_lot::Mutex;

use crate::allocation::{Claim, divide};
use crate::current::{RequestKind, RequestLimits};
use crate::level::{Applicant, Level, Limits, Seat};
use crate::metrics::{FlowMetrics, Metrics};
use crate::spec::{CATCH_ALL, EXEMPT, FlowSchema, PriorityLevel};
use crate::waiters::Waiters;
use crate::width::{Counts, Watchers, seats};

/// The interval at which seats move between levels.
const ADJUST_EVERY: Duration = Duration::from_secs(10);

/// API priority and fairness of one server.
pub struct FlowControl {
    /// The seats of all levels together.
    total_seats: u32,
    counts: Counts,
    watchers: Watchers,
    metrics: Metrics,
    /// The requests that have given their seat back for a while.
    waiters: Arc<Waiters>,
    /// Has random keys, so that no client can choose names that share all queues with others.
    hasher: RandomState,
    current: ArcSwap<Current>,
    /// Serializes changes.
    changing: Mutex<()>,
    /// True once [`FlowControl::run`] has begun.
    running: AtomicBool,
}

/// The current configuration.
#[derive(Default)]
struct Current {
    /// The schemas in matching order.
    schemas: Vec<Matcher>,
    levels: HashMap<Text, Arc<Level>>,
}

struct Matcher {
    schema: FlowSchema,
    level: Arc<Level>,
    names: Arc<FlowNames>,
    metrics: Arc<FlowMetrics>,
}

/// A request that may be served.
pub struct Admitted {
    /// The seat, which is held while the request is served.
    pub seat: Seat,
    pub flow: Arc<FlowNames>,
}

/// A request that the client must retry.
pub struct Rejected {
    pub flow: Arc<FlowNames>,
    /// Seconds.
    pub retry_after: u64,
    pub reason: &'static str,
}

impl FlowControl {
    /// Creates the controller with the mandatory levels only: `exempt` for administrators, `catch-all` for all others.
    pub fn new(
        limits: RequestLimits,
        counts: Counts,
        watchers: Watchers,
        registry: &Registry,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let metrics = Metrics::register(registry, limits)?;
        let current = ArcSwap::default();
        let hasher = RandomState::new();
        let control = Self {
            total_seats: limits.read_only.saturating_add(limits.mutating),
            counts,
            watchers,
            metrics,
            waiters: Arc::default(),
            hasher,
            current,
            changing: Mutex::new(()),
            running: AtomicBool::new(false),
        };
        control.configure(Vec::new(), Vec::new());
        Ok(Arc::new(control))
    }

    /// Replaces the schemas and levels. Waiting and running requests are not affected.
    pub fn configure(&self, mut schemas: Vec<FlowSchema>, mut levels: Vec<PriorityLevel>) {
        let _one = self.changing.lock();
        let now = Instant::now();
        for (name, make) in
            [(EXEMPT, PriorityLevel::exempt as fn() -> PriorityLevel), (CATCH_ALL, PriorityLevel::catch_all)]
        {
            if !levels.iter().any(|level| level.name == name) {
                levels.push(make());
            }
        }
        for (name, make) in [(EXEMPT, FlowSchema::exempt as fn() -> FlowSchema), (CATCH_ALL, FlowSchema::catch_all)] {
            if !schemas.iter().any(|schema| schema.name == name) {
                schemas.push(make());
            }
        }
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let before = self.current.load();
        let mut kept = HashMap::new();
        for level in &levels {
            let known =
                before.levels.get(&level.name).filter(|known| known.with(|s| s.spec.exempt == level.spec.exempt));
            let running = match known {
                Some(known) => {
                    known.with(|state| (state.spec, state.uid) = (level.spec.clone(), level.uid.clone()));
                    known.clone()
                }
                None => Level::new(level, self.metrics.level(&level.name), now),
            };
            kept.insert(level.name.clone(), running);
        }
        for (name, gone) in before
            .levels
            .iter()
            .filter(|(name, level)| kept.get(*name).is_none_or(|kept: &Arc<Level>| !Arc::ptr_eq(kept, level)))
        {
            tracing::debug!(level = name.as_str(), "a priority level is gone");
            gone.retire();
        }
        self.share_out(now, &kept);
        let matchers = schemas.into_iter().filter_map(|schema| {
            // A schema whose level is absent is ignored.
            let level = kept.get(&schema.level)?.clone();
            let metrics = Arc::new(self.metrics.flow(&schema.name, &level.name));
            let names = Arc::new(FlowNames {
                schema: schema.name.clone(),
                schema_uid: schema.uid.clone(),
                level: level.name.clone(),
                level_uid: level.with(|state| state.uid.clone()),
            });
            Some(Matcher { names, schema, level, metrics })
        });
        self.current.store(Arc::new(Current { schemas: matchers.collect(), levels: kept.clone() }));
    }

    /// Classifies a request, and waits for a seat, at most until the deadline.
    pub async fn admit(
        &self,
        info: &RequestInfo,
        query: &Query,
        user: &User,
        deadline: Instant,
    ) -> Result<Admitted, Rejected> {
        let current = self.current.load_full();
        let matcher = current
            .schemas
            .iter()
            .find(|matcher| matcher.schema.takes(info, user))
            .or_else(|| current.schemas.iter().find(|matcher| matcher.schema.name == CATCH_ALL));
        // The catch-all schema and level exist in every configuration.
        let Some(matcher) = matcher.or_else(|| current.schemas.last()) else {
            return Err(Rejected { flow: Arc::default(), retry_after: 1, reason: "concurrency-limit" });
        };
        let (nominal, hand_size) = matcher
            .level
            .with(|state| (state.limits.nominal, state.spec.queuing.map_or(1, |queuing| queuing.hand_size)));
        let seats = seats(info, query, &self.counts, nominal, hand_size);
        matcher.metrics.estimated(seats);
        let kind = if info.is_read_only() { RequestKind::ReadOnly } else { RequestKind::Mutating };
        if kind == RequestKind::Mutating
            && info.is_resource_request
            && info.resource != "leases"
            && let Some(watchers) = (self.watchers)(info)
        {
            matcher.metrics.watched(watchers);
        }
        let flow = matcher.schema.flow(info, user);
        let hash = self.hasher.hash_one((&matcher.schema.name, &flow));
        let applicant = Applicant {
            seats,
            schema: matcher.schema.name.clone(),
            flow,
            hash,
            metrics: matcher.metrics.clone(),
            kind,
        };
        let flow = matcher.names.clone();
        match matcher.level.seat(applicant, deadline).await {
            Ok(seat) => Ok(Admitted { seat, flow }),
            Err(none) => Err(Rejected { flow, retry_after: none.retry_after, reason: none.reason }),
        }
    }

    /// Returns the requests that have given their seat back for a while.
    pub fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    /// Returns true once seats move between levels.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Moves seats to the levels that need them, while the server runs.
    pub async fn run(self: Arc<Self>) {
        self.running.store(true, Ordering::Release);
        loop {
            tokio::time::sleep(ADJUST_EVERY).await;
            self.adjust(Instant::now());
        }
    }

    /// Returns the levels, sorted by name.
    pub(crate) fn levels(&self) -> Vec<Arc<Level>> {
        let mut levels: Vec<_> = self.current.load().levels.values().cloned().collect();
        levels.sort_by(|a, b| a.name.cmp(&b.name));
        levels
    }

    /// Gives each level the seats of its shares, before any borrowing.
    fn share_out(&self, now: Instant, levels: &HashMap<Text, Arc<Level>>) {
        let specs: Vec<_> = levels.values().map(|level| (level, level.with(|state| state.spec.clone()))).collect();
        let sum: f64 = specs.iter().map(|(_, spec)| f64::from(spec.shares)).sum();
        for (level, spec) in specs {
            let part = if sum > 0.0 { f64::from(spec.shares) / sum } else { 0.0 };
            let nominal = (f64::from(self.total_seats) * part).ceil() as u32;
            let percent = |percent: u32| (f64::from(nominal) * f64::from(percent) / 100.0).round() as u32;
            let lendable = percent(spec.lendable_percent);
            let borrowing = spec.borrowing_percent.map_or(self.total_seats, percent);
            let before = level.with(|state| state.limits);
            let (lower, upper) = (nominal - lendable.min(nominal), nominal.saturating_add(borrowing));
            // A new level begins in the middle, until the next adjustment.
            let same = (before.nominal, before.lower, before.upper) == (nominal, lower, upper);
            let current = if same { before.current } else { (nominal - lendable.min(nominal) / 2).max(lower) };
            level.apply(now, Limits { nominal, lower, upper, current, smoothed: before.smoothed }, self.total_seats);
        }
    }

    /// Moves seats between levels: each keeps the larger of the seats that it used recently and those that it cannot
    /// lend; the rest is divided by demand.
    fn adjust(&self, now: Instant) {
        let _one = self.changing.lock();
        let levels = self.levels();
        let mut claims = Vec::new();
        let mut total: f64 = 0.0;
        let mut exempt = 0.0;
        for level in &levels {
            let (limits, seen, is_exempt) = level.with(|state| {
                let seen = state.demand.take(now);
                state.limits.smoothed = seen.smooth(state.limits.smoothed);
                (state.limits, seen, state.spec.exempt)
            });
            level.metrics.demand(&seen, limits.smoothed);
            total += f64::from(limits.nominal);
            let highest = seen.highest;
            if is_exempt {
                exempt += highest.max(f64::from(limits.lower));
                continue;
            }
            let lower = highest.min(f64::from(limits.nominal)).max(f64::from(limits.lower));
            let claim = Claim { lower, upper: f64::from(limits.upper), target: limits.smoothed.max(lower) };
            level.metrics.target(claim.target);
            claims.push((level, limits, claim));
        }
        // Seats of exempt levels are not available to others.
        let left = total - exempt;
        let floor: f64 = claims.iter().map(|(_, limits, _)| f64::from(limits.lower)).sum();
        let wanted: f64 = claims.iter().map(|(.., claim)| claim.lower).sum();
        let seats: Vec<f64> = if left <= floor {
            self.metrics.fair_fraction(0.0);
            claims.iter().map(|(_, limits, _)| f64::from(limits.lower)).collect()
        } else if left <= wanted {
            self.metrics.fair_fraction(0.0);
            let part = (left - floor) / (wanted - floor);
            let given = |limits: &Limits, claim: &Claim| {
                f64::from(limits.lower) + (claim.lower - f64::from(limits.lower)) * part
            };
            claims.iter().map(|(_, limits, claim)| given(limits, claim)).collect()
        } else {
            let only: Vec<Claim> = claims.iter().map(|(.., claim)| *claim).collect();
            match divide(total, &only) {
                Some((seats, fraction)) => {
                    self.metrics.fair_fraction(fraction);
                    seats
                }
                // The current seats remain.
                None => claims.iter().map(|(_, limits, _)| f64::from(limits.current)).collect(),
            }
        };
        for ((level, limits, _), seats) in claims.iter().zip(seats) {
            level.apply(now, Limits { current: seats.round() as u32, ..*limits }, self.total_seats);
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits as Bounds, Value, yaml};
    use http::Method;

    use super::*;

    fn object(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Bounds::default()).unwrap().0
    }

    fn control(seats: u32, levels: &[&str], schemas: &[&str]) -> Arc<FlowControl> {
        let limits = RequestLimits { read_only: seats, mutating: 0 };
        let control = FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).unwrap();
        control.configure(
            schemas.iter().map(|text| FlowSchema::read(&object(text))).collect(),
            levels.iter().map(|text| PriorityLevel::read(&object(text))).collect(),
        );
        control
    }

    async fn ask(control: &FlowControl, user: &User, patience: Duration) -> Result<Admitted, Rejected> {
        let query = Query::default();
        let info = RequestInfo::parse(&Method::GET, "/api/v1/nodes/n", &query, "").unwrap();
        control.admit(&info, &query, user, Instant::now() + patience).await
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LEVEL: &str = "{metadata: {name: l, uid: lu}, spec: {type: Limited, limited: {nominalConcurrencyShares: 5, limitResponse: \
                         {type: Queue, queuing: {queues: 2, handSize: 1, queueLengthLimit: 3}}}}}";
    const SCHEMA: &str = "{metadata: {name: s, uid: su}, spec: {priorityLevelConfiguration: {name: l}, matchingPrecedence: 9, \
                          distinguisherMethod: {type: ByUser}, rules: [{subjects: [{kind: User, user: {name: jane}}], \
                          resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true}]}]}}";

    #[tokio::test]
    async fn who_waits_is_served_when_a_seat_is_free() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let first = ask(&control, &jane, SHORT).await.ok().unwrap();
        assert_eq!((first.flow.schema_uid.as_str(), first.flow.level_uid.as_str()), ("su", "lu"));
        let late = ask(&control, &jane, SHORT).await.err().unwrap();
        assert_eq!((late.reason, late.retry_after), ("time-out", 1));
        let waiting = tokio::spawn({
            let (control, jane) = (control.clone(), jane.clone());
            async move { ask(&control, &jane, Duration::from_secs(30)).await.is_ok() }
        });
        let level = control.levels().into_iter().find(|level| level.name == "l").unwrap();
        while level.with(|state| state.queues.waiting) == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(waiting.await.unwrap());
        assert!(level.is_idle());
        // A request that is dropped while waiting leaves its queue.
        let held = ask(&control, &jane, SHORT).await.ok().unwrap();
        assert!(tokio::time::timeout(SHORT, ask(&control, &jane, Duration::from_secs(30))).await.is_err());
        drop(held);
        assert!(level.is_idle());
    }

    #[tokio::test]
    async fn a_seat_is_given_back_and_taken_again() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let first = ask(&control, &jane, SHORT).await.ok().unwrap();
        assert!(!first.seat.is_exempt());
        let paused = first.seat.pause();
        let second = ask(&control, &jane, SHORT).await.ok().unwrap();
        let late = paused.resume(Instant::now() + SHORT).await.err().unwrap();
        assert_eq!((late.reason, late.retry_after), ("time-out", 1));
        let paused = second.seat.pause();
        let seat = paused.resume(Instant::now() + SHORT).await.ok().unwrap();
        let level = control.levels().into_iter().find(|level| level.name == "l").unwrap();
        assert!(!level.is_idle());
        drop(seat);
        assert!(level.is_idle());
    }

    #[tokio::test]
    async fn administrators_never_wait_and_the_rest_share_a_little() {
        let control = control(1, &[], &[]);
        let (master, other) = (User::new("m", &["system:masters"]), User::new("o", &["system:authenticated"]));
        let mut seats = Vec::new();
        for _ in 0..10 {
            seats.push(ask(&control, &master, SHORT).await.ok().unwrap());
        }
        seats.push(ask(&control, &other, SHORT).await.ok().unwrap());
        assert_eq!(ask(&control, &other, SHORT).await.err().unwrap().reason, "concurrency-limit");
    }

    #[tokio::test]
    async fn a_level_that_goes_away_while_requests_run() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let held = ask(&control, &jane, SHORT).await.ok().unwrap();
        let level = control.levels().into_iter().find(|level| level.name == "l").unwrap();
        control.configure(vec![FlowSchema::read(&object(SCHEMA))], Vec::new());
        assert!(level.is_quiescing() && !level.is_idle());
        // The schema whose level is absent is ignored.
        let other = ask(&control, &jane, SHORT).await.ok().unwrap();
        assert_ne!(other.flow.schema_uid, "su");
        drop(held);
        assert!(level.is_idle());
    }

    #[tokio::test]
    async fn seats_move_to_where_they_are_used() {
        let idle = LEVEL
            .replace("name: l,", "name: idle,")
            .replace("nominalConcurrencyShares: 5", "nominalConcurrencyShares: 5, lendablePercent: 50");
        let control = control(30, &[LEVEL, &idle], &[SCHEMA]);
        let limits = |name: &str| {
            let level = control.levels().into_iter().find(|level| level.name == name).unwrap();
            level.with(|state| state.limits)
        };
        assert_eq!((limits("l").nominal, limits("idle").lower, limits("idle").current), (10, 5, 8));
        let jane = User::new("jane", &["system:authenticated"]);
        let mut seats = Vec::new();
        for _ in 0..10 {
            seats.push(ask(&control, &jane, SHORT).await.ok().unwrap());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        control.adjust(Instant::now());
        assert!(limits("l").current > 10 && limits("idle").current < 10, "{:?} {:?}", limits("l"), limits("idle"));
        let sum: u32 = ["l", "idle", CATCH_ALL].iter().map(|name| limits(name).current).sum();
        assert!((29..=31).contains(&sum), "{sum}");
    }
}
