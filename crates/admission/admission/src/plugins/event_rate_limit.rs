//! EventRateLimit: limits the rate of events, in total, by namespace, by user, or by source and object.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Event, EventSource, ObjectReference};
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::plugin::{Plugin, Request, Stage};

/// The default cache size of a limit.
const BUCKETS: usize = 4096;

/// A limit of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLimit {
    pub kind: EventLimitKind,
    /// The sustained rate per second, greater than 0.
    pub qps: u32,
    /// Greater than 0.
    pub burst: u32,
    /// The maximum number of buckets; 0 for 4,096.
    pub cache_size: usize,
}

/// The requests that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLimitKind {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

pub(crate) struct EventRateLimit {
    limits: Vec<Limiter>,
}

struct Limiter {
    limit: EventLimit,
    buckets: Mutex<HashMap<String, Bucket>>,
}

/// A token bucket at a point in time.
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl EventLimitKind {
    pub const ALL: [Self; 4] = [Self::Namespace, Self::Server, Self::SourceAndObject, Self::User];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }

    fn key(self, attributes: &Attributes, event: &Value) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => attributes.namespace.to_string(),
            Self::User => attributes.user.name.to_string(),
            Self::SourceAndObject => {
                let event = FieldRef::<Event>::root(event);
                let (source, object) = (event.at(Event::SOURCE), event.at(Event::INVOLVED_OBJECT));
                let source = [EventSource::COMPONENT, EventSource::HOST].map(|field| source.at(field).str());
                let object = [
                    ObjectReference::KIND,
                    ObjectReference::NAMESPACE,
                    ObjectReference::NAME,
                    ObjectReference::UID,
                    ObjectReference::API_VERSION,
                ]
                .map(|field| object.at(field).str());
                [source.concat(), object.concat()].concat()
            }
        }
    }
}

impl EventRateLimit {
    pub(crate) fn new(limits: &[EventLimit]) -> Self {
        let limits = limits.iter().cloned();
        Self { limits: limits.map(|limit| Limiter { limit, buckets: Mutex::default() }).collect() }
    }

    /// Checks all limits, so that each one counts the event even if another one rejects it.
    fn check(&self, attributes: &Attributes, event: &Value, now: Instant) -> Result<(), Status> {
        let mut reached = Vec::new();
        for limiter in &self.limits {
            let key = limiter.limit.kind.key(attributes, event);
            if !limiter.accepts(&key, now) {
                let why = format!("limit reached on type {} for key {key}", limiter.limit.kind.as_str());
                if !reached.contains(&why) {
                    reached.push(why);
                }
            }
        }
        match &reached[..] {
            [] => Ok(()),
            [one] => Err(Status::rate_limited(one)),
            many => Err(Status::rate_limited(format!("[{}]", many.join(", ")))),
        }
    }
}

impl Limiter {
    fn accepts(&self, key: &str, now: Instant) -> bool {
        let (qps, burst) = (f64::from(self.limit.qps), f64::from(self.limit.burst));
        let mut buckets = self.buckets.lock();
        let max_buckets = if self.limit.cache_size == 0 { BUCKETS } else { self.limit.cache_size };
        if !buckets.contains_key(key) && buckets.len() >= max_buckets {
            // Full buckets can be dropped without effect. If there are none, the least recently used bucket is dropped.
            let refill_time = Duration::from_secs_f64(burst / qps);
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < refill_time);
            if buckets.len() >= max_buckets
                && let Some(oldest) = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(key, _)| key.clone())
            {
                buckets.remove(&oldest);
            }
        }
        let bucket = buckets.entry(key.to_owned()).or_insert(Bucket { tokens: burst, at: now });
        let refilled = now.saturating_duration_since(bucket.at).as_secs_f64() * qps;
        bucket.tokens = (bucket.tokens + refilled).min(burst);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        // Compares the kind: events of `events.k8s.io` have another one, which kube-apiserver does not limit either.
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && (attributes.kind.group.as_str(), attributes.kind.kind.as_str()) == ("", "Event")
            && !attributes.dry_run
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = self.check(request.attributes, object, Instant::now());
        Box::pin(async { outcome })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::User;
    use binnacle_schema::value;

    use super::*;
    use crate::testing::attributes;

    fn limit(kind: EventLimitKind, qps: u32, burst: u32) -> EventLimit {
        EventLimit { kind, qps, burst, cache_size: 2 }
    }

    #[test]
    fn buckets_refill_over_time() {
        let plugin = EventRateLimit::new(&[limit(EventLimitKind::Server, 2, 3)]);
        let request = attributes(Operation::Create, ["", "v1", "events"], "Event", "");
        let start = Instant::now();
        let accepted = |after: u64| plugin.check(&request, &Value::Null, start + Duration::from_millis(after)).is_ok();
        let outcomes = [0, 0, 0, 0, 400, 500, 501, 1000, 9000, 9000, 9000, 9000].map(accepted);
        let want = [true, true, true, false, false, true, false, true, true, true, true, false];
        assert_eq!(outcomes, want);
        let error = plugin.check(&request, &Value::Null, start + Duration::from_millis(9000)).unwrap_err();
        assert_eq!((error.code(), error.message()), (429, "Too many requests: limit reached on type Server for key "));
    }

    #[test]
    fn buckets_are_separate_by_kind_of_limit() {
        let event =
            |name: &str| value!({"involvedObject": {"kind": "Pod", "name": name}, "source": {"component": "c"}});
        let request = |namespace: &str, user: &str| Attributes {
            namespace: namespace.into(),
            user: User::new(user, &[]),
            ..attributes(Operation::Create, ["", "v1", "events"], "Event", "")
        };
        for (kind, second, third) in [
            (EventLimitKind::Server, false, false),
            (EventLimitKind::Namespace, false, true),
            (EventLimitKind::User, true, false),
            (EventLimitKind::SourceAndObject, true, true),
        ] {
            let plugin = EventRateLimit::new(&[limit(kind, 1, 1)]);
            let now = Instant::now();
            assert!(plugin.check(&request("a", "u"), &event("x"), now).is_ok());
            assert_eq!(plugin.check(&request("a", "v"), &event("y"), now).is_ok(), second, "{kind:?}");
            assert_eq!(plugin.check(&request("b", "u"), &event("z"), now).is_ok(), third, "{kind:?}");
        }
        // The third bucket replaces the oldest.
        let plugin = EventRateLimit::new(&[limit(EventLimitKind::Namespace, 1, 1)]);
        let start = Instant::now();
        let accepted = |(after, namespace): (u64, &str)| {
            plugin.check(&request(namespace, "u"), &Value::Null, start + Duration::from_millis(after)).is_ok()
        };
        let outcomes = [(0, "a"), (1, "b"), (2, "c"), (3, "b"), (4, "a")].map(accepted);
        assert_eq!(outcomes, [true, true, true, false, true]);
        assert_eq!(plugin.limits[0].buckets.lock().len(), 2);
    }

    #[test]
    fn handles_only_written_events() {
        let plugin = EventRateLimit::new(&[limit(EventLimitKind::Server, 1, 1)]);
        let events = attributes(Operation::Create, ["", "v1", "events"], "Event", "");
        let dry_run_events = Attributes { dry_run: true, ..events.clone() };
        let pods = attributes(Operation::Create, ["", "v1", "pods"], "Pod", "");
        let handles = [&events, &dry_run_events, &pods].map(|attributes| plugin.handles(Stage::Validate, attributes));
        assert_eq!(handles, [true, false, false]);
    }
}
