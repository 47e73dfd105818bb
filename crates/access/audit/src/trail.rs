//! The audit events of one request, created at its stages.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_meta::{GoDuration, Status, Text};
use binnacle_request::{AuditData, AuditLevel, Decision, Record, RequestInfo, User};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::auditor::Auditor;
use crate::event::{Event, ObjectReference, ResponseStatus, Stage};
use crate::policy::RequestAuditConfig;
use crate::truncate::TRUNCATED;

/// The audit events of one request. There are none before [`Trail::begin`].
pub struct Trail {
    auditor: Arc<Auditor>,
    record: Arc<Record>,
    source_ips: Arc<[IpAddr]>,
    user_agent: Text,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    audited: Option<AuditedRequest>,
    status: Option<ResponseStatus>,
    response_object: Option<Bytes>,
    ended: bool,
}

#[derive(Clone)]
struct AuditedRequest {
    config: RequestAuditConfig,
    info: Arc<RequestInfo>,
    user: Option<Arc<User>>,
}

/// The parts of a response head that are recorded in events.
pub struct ResponseHead {
    pub code: u16,
    /// Present if the response is a Status.
    pub status: Option<Arc<Status>>,
}

/// The maximum length of a user agent in an event.
const MAX_USER_AGENT: usize = 1024;
/// The maximum size of a recorded response. Larger ones would have to be buffered; they are omitted and the event is
/// marked as truncated.
const MAX_RESPONSE_OBJECT: usize = 16 << 20;
/// The latency above which events are annotated with the latency of each part of the request.
const SLOW: Duration = Duration::from_millis(500);

impl Trail {
    pub fn new(auditor: Arc<Auditor>, record: Arc<Record>, source_ips: Vec<IpAddr>, user_agent: &str) -> Self {
        let user_agent = if user_agent.len() > MAX_USER_AGENT {
            let mut end = MAX_USER_AGENT;
            while !user_agent.is_char_boundary(end) {
                end -= 1;
            }
            Text::from(format!("{}...TRUNCATED", &user_agent[..end]))
        } else {
            Text::from(user_agent)
        };
        record.begin_audit();
        Self { auditor, record, source_ips: source_ips.into(), user_agent, state: Mutex::default() }
    }

    /// Evaluates the policy after successful or failed authentication. Returns true if the request is audited.
    pub fn begin(&self, info: &Arc<RequestInfo>, user: Option<&Arc<User>>) -> bool {
        let config = self.auditor.evaluate(info, user.map(Arc::as_ref));
        self.record.begin_audit().decide(config.level, config.omit_managed_fields);
        if config.level == AuditLevel::None {
            return false;
        }
        self.state.lock().audited = Some(AuditedRequest { config, info: info.clone(), user: user.cloned() });
        true
    }

    /// Returns true once the policy has selected the request for auditing.
    pub fn is_begun(&self) -> bool {
        self.state.lock().audited.is_some()
    }

    /// Records the `RequestReceived` stage. Returns false if that failed and the request must be rejected.
    pub async fn received(&self) -> bool {
        let accepted = self.emit(Stage::RequestReceived).await;
        if !accepted {
            self.auditor.rejected();
        }
        accepted
    }

    /// Records the response head; only the first call counts.
    pub fn answered(&self, answered: &ResponseHead) {
        self.state.lock().status.get_or_insert_with(|| match &answered.status {
            Some(status) => ResponseStatus::Status(status.clone(), answered.code),
            None => ResponseStatus::Code(answered.code),
        });
    }

    /// Like [`Trail::answered`], for failed authentication; `tried` are the authentication methods that were tried.
    pub fn unauthenticated(&self, tried: &[&str]) {
        let message = match tried {
            [] => "Authentication failed, no credentials provided".to_owned(),
            tried => format!("Authentication failed, attempted: {}", tried.join(", ")),
        };
        self.state.lock().status.get_or_insert(ResponseStatus::Unauthenticated(message));
    }

    /// Records the `ResponseStarted` stage.
    pub async fn started(&self) {
        self.emit(Stage::ResponseStarted).await;
    }

    /// Returns the maximum size of the response body to record; zero if none is recorded.
    pub fn max_recorded_body(&self) -> usize {
        let state = self.state.lock();
        let wanted = state.audited.as_ref().is_some_and(|audited| audited.config.level >= AuditLevel::RequestResponse);
        if wanted { MAX_RESPONSE_OBJECT } else { 0 }
    }

    /// Records the response body; `None` if it was too large.
    pub fn body(&self, media_type: &str, body: Option<&Bytes>) {
        let Some(audited) = self.state.lock().audited.clone() else { return };
        match body {
            Some(body) => {
                let object = self.auditor.read(media_type, body, audited.config.omit_managed_fields);
                self.state.lock().response_object = object;
            }
            None => self.record.annotate(TRUNCATED, "true"),
        }
    }

    /// Returns true once the request is slow enough for its latencies to be recorded.
    pub fn is_slow(&self) -> bool {
        self.total() > SLOW
    }

    fn total(&self) -> Duration {
        self.record.received().elapsed().unwrap_or_default()
    }

    /// Annotates slow requests with the latencies of their parts, except watches, which are long-running by design.
    fn annotate_latencies(&self) {
        let total = self.total();
        let watches = self.state.lock().audited.as_ref().is_some_and(|audited| audited.info.verb == "watch");
        if total <= SLOW || watches {
            return;
        }
        let parts = self.record.latencies().map(|(part, time)| (part.as_str(), time));
        for (part, time) in parts.chain([("total", total)]) {
            let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            self.record.annotate(&format!("apiserver.latency.k8s.io/{part}"), &GoDuration(nanos).to_string());
        }
    }

    /// Records the `ResponseComplete` stage: the response was sent, or the client is gone. Only the first call of this
    /// or [`Trail::panicked`] counts.
    pub async fn completed(&self) {
        if self.end() {
            self.annotate_latencies();
            self.state.lock().status.get_or_insert(ResponseStatus::ClosedEarly);
            self.emit(Stage::ResponseComplete).await;
        }
    }

    /// Records the `Panic` stage.
    pub async fn panicked(&self, message: &str) {
        if self.end() {
            self.state.lock().status = Some(ResponseStatus::Failure {
                code: 500,
                reason: "InternalError",
                message: format!("APIServer panic'd: {message}"),
            });
            self.emit(Stage::Panic).await;
        }
    }

    /// Ends the trail: no further events are created. Returns false if it has ended already.
    pub fn end(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().ended, true)
    }

    async fn emit(&self, stage: Stage) -> bool {
        let Some(event) = self.event(stage) else { return true };
        self.auditor.process(event).await
    }

    /// Creates the event of a stage, unless the policy omits the stage.
    fn event(&self, stage: Stage) -> Option<Event> {
        let state = self.state.lock();
        let audited = state.audited.as_ref()?;
        if audited.config.omit_stages.contains(stage) {
            return None;
        }
        let mut notes = self.record.begin_audit().noted();
        self.record.note(|facts| annotate_decision(facts.decision.as_ref(), &mut notes));
        let received = self.record.received();
        let at_once = stage == Stage::RequestReceived;
        let level = audited.config.level;
        Some(Event {
            level,
            audit_id: self.record.audit_id().clone(),
            stage,
            request_uri: self.record.uri().into(),
            verb: audited.info.verb.clone(),
            user: audited.user.clone(),
            impersonated: notes.impersonated.clone(),
            source_ips: self.source_ips.clone(),
            user_agent: self.user_agent.clone(),
            object: reference(&audited.info, &notes),
            status: state.status.clone(),
            request_object: notes.request_object.filter(|_| level >= AuditLevel::Request),
            response_object: state.response_object.clone(),
            received,
            stage_time: if at_once { received } else { SystemTime::now() },
            annotations: notes.annotations,
        })
    }
}

fn annotate_decision(decision: Option<&Decision>, notes: &mut AuditData) {
    let Some(decision) = decision else { return };
    let word = if decision.is_allow() { "allow" } else { "forbid" };
    notes.annotations.insert("authorization.k8s.io/decision".into(), word.into());
    notes.annotations.insert("authorization.k8s.io/reason".into(), decision.reason().into());
}

/// Returns the object that the path names, completed from the object in the request.
fn reference(info: &RequestInfo, notes: &AuditData) -> Option<ObjectReference> {
    if !info.is_resource_request {
        return None;
    }
    let or = |first: &Text, second: &Text| if first.is_empty() { second.clone() } else { first.clone() };
    Some(ObjectReference {
        resource: info.resource.clone(),
        namespace: or(&info.namespace, &notes.object.namespace),
        name: or(&info.name, &notes.object.name),
        uid: notes.object.uid.clone(),
        api_group: info.api_group.clone(),
        api_version: info.api_version.clone(),
        resource_version: notes.object.resource_version.clone(),
        subresource: info.subresource.clone(),
    })
}

#[cfg(test)]
mod tests {
    use binnacle_meta::GroupResource;
    use binnacle_request::{AuditedObject, Query};
    use http::Method;

    use super::*;
    use crate::backend::tests::RecordingBackend;
    use crate::metrics::Metrics;
    use crate::policy::Policy;

    fn trail(rules: &str, seen: &Arc<RecordingBackend>, method: Method, path: &str) -> (Trail, Arc<RequestInfo>) {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rules}]");
        let policy = Policy::parse(text.as_bytes()).unwrap();
        let read: ObjectReader = |_, body, _| Some(body.clone());
        let auditor = Arc::new(Auditor::new(policy, Box::new(seen.clone()), Metrics::fresh(), read));
        let info = Arc::new(RequestInfo::parse(&method, path, &Query::default(), path).unwrap());
        let record = Record::open(method, path.into(), Some("id".into()), None);
        (Trail::new(auditor, record, vec![[127, 0, 0, 1].into()], &"a".repeat(2000)), info)
    }

    use crate::ObjectReader;

    #[tokio::test]
    async fn records_stages_and_annotations_of_a_create() {
        let seen = Arc::new(RecordingBackend::default());
        let path = "/api/v1/namespaces/n/pods";
        let (trail, info) = trail("{level: RequestResponse}", &seen, Method::POST, path);
        let user = Arc::new(User::new("jane", &[]));
        trail.record.annotate("early", "1");
        assert!(trail.begin(&info, Some(&user)) && trail.received().await);
        trail.record.note(|facts| facts.decision = Some(Decision::Allow("RBAC: because".into())));
        trail.record.begin_audit().note(|notes| {
            notes.object = AuditedObject { name: "p".into(), ..AuditedObject::default() };
            notes.request_object = Some(Bytes::from_static(b"{}"));
        });
        trail.answered(&ResponseHead { code: 201, status: None });
        assert_eq!(trail.max_recorded_body(), MAX_RESPONSE_OBJECT);
        trail.body("application/json", Some(&Bytes::from_static(b"{\"kind\":\"Pod\"}")));
        trail.completed().await;
        trail.completed().await;
        trail.panicked("too late").await;
        let events = seen.events.lock();
        let [first, last] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((first.stage, last.stage), (Stage::RequestReceived, Stage::ResponseComplete));
        assert_eq!((first.stage_time, first.annotations.len()), (first.received, 1));
        assert!(first.status.is_none() && first.request_object.is_none());
        assert_eq!(last.status.as_ref().map(ResponseStatus::code), Some(201));
        assert_eq!(last.object.as_ref().map(|object| object.name.as_str()), Some("p"));
        assert!(last.request_object.is_some() && last.response_object.is_some());
        assert_eq!(last.annotations[&Text::from("authorization.k8s.io/decision")], "allow");
        assert_eq!(last.annotations[&Text::from("authorization.k8s.io/reason")], "RBAC: because");
        assert_eq!(last.user_agent.len(), 1024 + "...TRUNCATED".len());
    }

    #[tokio::test]
    async fn obeys_level_and_omitted_stages() {
        let seen = Arc::new(RecordingBackend::default());
        let path = "/api/v1/nodes/x";
        let (none, info) = trail("{level: None}", &seen, Method::GET, path);
        assert!(!none.begin(&info, None) && none.received().await);
        none.completed().await;
        assert!(none.record.audit().is_none() && seen.events.lock().is_empty());

        let rule = "{level: Metadata, omitStages: [RequestReceived]}";
        let (trail, info) = trail(rule, &seen, Method::GET, path);
        assert!(trail.begin(&info, None) && trail.received().await);
        let status = Arc::new(Status::not_found(&GroupResource::new("", "nodes"), "x"));
        trail.answered(&ResponseHead { code: 404, status: Some(status) });
        assert_eq!(trail.max_recorded_body(), 0);
        trail.panicked("on purpose").await;
        let events = seen.events.lock();
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((event.stage, event.level), (Stage::Panic, AuditLevel::Metadata));
        match &event.status {
            Some(ResponseStatus::Failure { code: 500, message, .. }) => {
                assert_eq!(message, "APIServer panic'd: on purpose");
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn reports_when_a_strict_backend_refuses_the_event() {
        let seen = Arc::new(RecordingBackend { refuses: true, ..RecordingBackend::default() });
        let (trail, info) = trail("{level: Metadata}", &seen, Method::GET, "/version");
        assert!(trail.begin(&info, None));
        assert!(!trail.received().await);
    }
}
