//! The flow controller of all flow schemas and priority levels: it classifies and admits requests, and moves seats
//! between levels.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use binnacle_meta::Text;
use binnacle_metrics::Registry;
use binnacle_request::{FlowNames, Query, RequestInfo, User};
use parking_lot::Mutex;

use crate::allocation::{Claim, divide};
use crate::current_requests::{RequestKind, RequestLimits};
use crate::level::{Level, Seat, SeatRequest};
use crate::limits::Limits;
use crate::metrics::{FlowMetrics, Metrics};
use crate::spec::{CATCH_ALL, EXEMPT, FlowSchema, PriorityLevel};
use crate::waiters::Waiters;
use crate::width::{ListSizes, WatcherCounts, seats};

/// The interval at which seats move between levels.
const ADJUST_EVERY: Duration = Duration::from_secs(10);

/// Controls the flow of a server's requests (API priority and fairness).
pub struct FlowControl {
    /// The seats of all levels.
    total_seats: u32,
    list_sizes: ListSizes,
    watcher_counts: WatcherCounts,
    metrics: Metrics,
    /// The requests that have released their seat while they wait.
    waiters: Arc<Waiters>,
    /// Has random keys, so that a client cannot choose names whose flows share all queues with others.
    hasher: RandomState,
    current: ArcSwap<Configuration>,
    /// Serializes changes.
    change_lock: Mutex<()>,
    /// True once [`FlowControl::run`] has started.
    running: AtomicBool,
}

/// The current configuration.
#[derive(Default)]
struct Configuration {
    /// The schemas in matching order.
    schemas: Vec<Matcher>,
    levels: HashMap<Text, Arc<Level>>,
}

struct Matcher {
    schema: FlowSchema,
    level: Arc<Level>,
    names: Arc<FlowNames>,
    /// Created for the first request: most schemas of most clusters have none.
    metrics: OnceLock<Arc<FlowMetrics>>,
}

/// A request that was admitted.
pub struct AdmittedRequest {
    /// The seat, which is held while the request is executed.
    pub seat: Seat,
    pub flow: Arc<FlowNames>,
}

/// A rejected request, which the client must retry.
pub struct RejectedRequest {
    pub flow: Arc<FlowNames>,
    /// The delay before the retry, in seconds.
    pub retry_after: u64,
    pub reason: &'static str,
}

impl FlowControl {
    /// Creates the controller with the mandatory levels only: `exempt` for administrators, `catch-all` for all others.
    pub fn new(
        limits: RequestLimits,
        list_sizes: ListSizes,
        watcher_counts: WatcherCounts,
        registry: &Registry,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let metrics = Metrics::register(registry, limits)?;
        let current = ArcSwap::default();
        let hasher = RandomState::new();
        let control = Self {
            total_seats: limits.read_only.saturating_add(limits.mutating),
            list_sizes,
            watcher_counts,
            metrics,
            waiters: Arc::default(),
            hasher,
            current,
            change_lock: Mutex::new(()),
            running: AtomicBool::new(false),
        };
        control.configure(Vec::new(), Vec::new());
        Ok(Arc::new(control))
    }

    /// Replaces the schemas and levels. Waiting and running requests are not affected.
    pub fn configure(&self, mut schemas: Vec<FlowSchema>, mut levels: Vec<PriorityLevel>) {
        let _guard = self.change_lock.lock();
        let now = Instant::now();
        for (name, build) in
            [(EXEMPT, PriorityLevel::exempt as fn() -> PriorityLevel), (CATCH_ALL, PriorityLevel::catch_all)]
        {
            if !levels.iter().any(|level| level.name == name) {
                levels.push(build());
            }
        }
        for (name, build) in [(EXEMPT, FlowSchema::exempt as fn() -> FlowSchema), (CATCH_ALL, FlowSchema::catch_all)] {
            if !schemas.iter().any(|schema| schema.name == name) {
                schemas.push(build());
            }
        }
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let before = self.current.load();
        let mut next_levels = HashMap::new();
        for level in &levels {
            let existing =
                before.levels.get(&level.name).filter(|existing| existing.with(|s| s.spec.exempt == level.spec.exempt));
            let running = match existing {
                Some(existing) => {
                    existing.with(|state| (state.spec, state.uid) = (level.spec.clone(), level.uid.clone()));
                    existing.clone()
                }
                None => Level::new(level, self.metrics.level(&level.name), now),
            };
            next_levels.insert(level.name.clone(), running);
        }
        for (name, removed) in before
            .levels
            .iter()
            .filter(|(name, level)| next_levels.get(*name).is_none_or(|next: &Arc<Level>| !Arc::ptr_eq(next, level)))
        {
            tracing::debug!(level = name.as_str(), "a priority level is gone");
            removed.quiesce();
        }
        self.assign_nominal_seats(now, &next_levels);
        let matchers = schemas.into_iter().filter_map(|schema| {
            // A schema whose level is absent is ignored.
            let level = next_levels.get(&schema.level)?.clone();
            let names = Arc::new(FlowNames {
                schema: schema.name.clone(),
                schema_uid: schema.uid.clone(),
                level: level.name.clone(),
                level_uid: level.with(|state| state.uid.clone()),
            });
            Some(Matcher { names, schema, level, metrics: OnceLock::new() })
        });
        self.current.store(Arc::new(Configuration { schemas: matchers.collect(), levels: next_levels.clone() }));
    }

    /// Classifies a request, and waits for a seat, at most until the deadline.
    pub async fn admit(
        &self,
        info: &RequestInfo,
        query: &Query,
        user: &User,
        deadline: Instant,
    ) -> Result<AdmittedRequest, RejectedRequest> {
        let current = self.current.load_full();
        let matcher = current
            .schemas
            .iter()
            .find(|matcher| matcher.schema.matches(info, user))
            .or_else(|| current.schemas.iter().find(|matcher| matcher.schema.name == CATCH_ALL));
        // The catch-all schema and level exist in every configuration.
        let Some(matcher) = matcher.or_else(|| current.schemas.last()) else {
            return Err(RejectedRequest { flow: Arc::default(), retry_after: 1, reason: "concurrency-limit" });
        };
        let (nominal, hand_size) = matcher
            .level
            .with(|state| (state.limits.nominal, state.spec.queuing.map_or(1, |queuing| queuing.hand_size)));
        let seats = seats(info, query, &self.list_sizes, nominal, hand_size);
        let metrics =
            matcher.metrics.get_or_init(|| Arc::new(self.metrics.flow(&matcher.schema.name, &matcher.level.name)));
        metrics.observe_estimated_seats(seats);
        let kind = if info.is_read_only() { RequestKind::ReadOnly } else { RequestKind::Mutating };
        if kind == RequestKind::Mutating
            && info.is_resource_request
            && info.resource != "leases"
            && let Some(watchers) = (self.watcher_counts)(info)
        {
            metrics.observe_watchers(watchers);
        }
        let flow = matcher.schema.flow(info, user);
        let hash = self.hasher.hash_one((&matcher.schema.name, &flow));
        let request =
            SeatRequest { seats, schema: matcher.schema.name.clone(), flow, hash, metrics: metrics.clone(), kind };
        let flow = matcher.names.clone();
        match matcher.level.acquire_seat(request, deadline).await {
            Ok(seat) => Ok(AdmittedRequest { seat, flow }),
            Err(none) => Err(RejectedRequest { flow, retry_after: none.retry_after, reason: none.reason }),
        }
    }

    /// Returns the requests that have released their seat while they wait.
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
    fn assign_nominal_seats(&self, now: Instant, levels: &HashMap<Text, Arc<Level>>) {
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
            // A new level starts in the middle of its bounds, until the next adjustment.
            let same = (before.nominal, before.lower, before.upper) == (nominal, lower, upper);
            let current = if same { before.current } else { (nominal - lendable.min(nominal) / 2).max(lower) };
            level.apply(now, Limits { nominal, lower, upper, current, smoothed: before.smoothed }, self.total_seats);
        }
    }

    /// Moves seats between levels: each keeps its recently used seats or those that it cannot lend, whichever is more;
    /// the rest is divided by demand.
    fn adjust(&self, now: Instant) {
        let _guard = self.change_lock.lock();
        let levels = self.levels();
        let mut claims = Vec::new();
        let mut total: f64 = 0.0;
        let mut exempt = 0.0;
        for level in &levels {
            let (limits, stats, is_exempt) = level.with(|state| {
                let stats = state.demand.take(now);
                state.limits.smoothed = stats.smooth(state.limits.smoothed);
                (state.limits, stats, state.spec.exempt)
            });
            level.metrics.set_demand(&stats, limits.smoothed);
            total += f64::from(limits.nominal);
            let highest = stats.highest;
            if is_exempt {
                exempt += highest.max(f64::from(limits.lower));
                continue;
            }
            let lower = highest.min(f64::from(limits.nominal)).max(f64::from(limits.lower));
            let claim = Claim { lower, upper: f64::from(limits.upper), target: limits.smoothed.max(lower) };
            level.metrics.set_target(claim.target);
            claims.push((level, limits, claim));
        }
        // Seats of exempt levels are not available to others.
        let available = total - exempt;
        let lower_sum: f64 = claims.iter().map(|(_, limits, _)| f64::from(limits.lower)).sum();
        let claimed_sum: f64 = claims.iter().map(|(.., claim)| claim.lower).sum();
        let seats: Vec<f64> = if available <= lower_sum {
            self.metrics.set_fair_fraction(0.0);
            claims.iter().map(|(_, limits, _)| f64::from(limits.lower)).collect()
        } else if available <= claimed_sum {
            self.metrics.set_fair_fraction(0.0);
            let part = (available - lower_sum) / (claimed_sum - lower_sum);
            let seats_of = |limits: &Limits, claim: &Claim| {
                f64::from(limits.lower) + (claim.lower - f64::from(limits.lower)) * part
            };
            claims.iter().map(|(_, limits, claim)| seats_of(limits, claim)).collect()
        } else {
            let only: Vec<Claim> = claims.iter().map(|(.., claim)| *claim).collect();
            match divide(total, &only) {
                Some((seats, fraction)) => {
                    self.metrics.set_fair_fraction(fraction);
                    seats
                }
                // The seats do not change.
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

    async fn admit(control: &FlowControl, user: &User, patience: Duration) -> Result<AdmittedRequest, RejectedRequest> {
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
    async fn serves_waiting_request_when_seat_is_released() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let first = admit(&control, &jane, SHORT).await.ok().unwrap();
        assert_eq!((first.flow.schema_uid.as_str(), first.flow.level_uid.as_str()), ("su", "lu"));
        let late = admit(&control, &jane, SHORT).await.err().unwrap();
        assert_eq!((late.reason, late.retry_after), ("time-out", 1));
        let waiting = tokio::spawn({
            let (control, jane) = (control.clone(), jane.clone());
            async move { admit(&control, &jane, Duration::from_secs(30)).await.is_ok() }
        });
        let level = control.levels().into_iter().find(|level| level.name == "l").unwrap();
        while level.with(|state| state.queues.waiting) == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(waiting.await.unwrap());
        assert!(level.is_idle());
        // A request that is dropped while waiting leaves its queue.
        let held = admit(&control, &jane, SHORT).await.ok().unwrap();
        assert!(tokio::time::timeout(SHORT, admit(&control, &jane, Duration::from_secs(30))).await.is_err());
        drop(held);
        assert!(level.is_idle());
    }

    #[tokio::test]
    async fn paused_request_releases_and_reacquires_seat() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let first = admit(&control, &jane, SHORT).await.ok().unwrap();
        assert!(!first.seat.is_exempt());
        let paused = first.seat.pause();
        let second = admit(&control, &jane, SHORT).await.ok().unwrap();
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
    async fn mandatory_levels_exempt_masters_and_limit_others() {
        let control = control(1, &[], &[]);
        let (master, other) = (User::new("m", &["system:masters"]), User::new("o", &["system:authenticated"]));
        let mut seats = Vec::new();
        for _ in 0..10 {
            seats.push(admit(&control, &master, SHORT).await.ok().unwrap());
        }
        seats.push(admit(&control, &other, SHORT).await.ok().unwrap());
        assert_eq!(admit(&control, &other, SHORT).await.err().unwrap().reason, "concurrency-limit");
    }

    #[tokio::test]
    async fn removed_level_quiesces_until_requests_end() {
        let control = control(2, &[LEVEL], &[SCHEMA]);
        let jane = User::new("jane", &["system:authenticated"]);
        let held = admit(&control, &jane, SHORT).await.ok().unwrap();
        let level = control.levels().into_iter().find(|level| level.name == "l").unwrap();
        control.configure(vec![FlowSchema::read(&object(SCHEMA))], Vec::new());
        assert!(level.is_quiescing() && !level.is_idle());
        // The schema whose level is absent is ignored.
        let other = admit(&control, &jane, SHORT).await.ok().unwrap();
        assert_ne!(other.flow.schema_uid, "su");
        drop(held);
        assert!(level.is_idle());
    }

    #[tokio::test]
    async fn borrows_seats_from_idle_levels() {
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
            seats.push(admit(&control, &jane, SHORT).await.ok().unwrap());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        control.adjust(Instant::now());
        assert!(limits("l").current > 10 && limits("idle").current < 10, "{:?} {:?}", limits("l"), limits("idle"));
        let sum: u32 = ["l", "idle", CATCH_ALL].iter().map(|name| limits(name).current).sum();
        assert!((29..=31).contains(&sum), "{sum}");
    }
}
