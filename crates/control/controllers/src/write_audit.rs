//! Audit events of writes by controllers inside the server, which do not pass the request chain.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use binnacle_audit::{Auditor, ResponseHead, Trail};
use binnacle_meta::{Status, Text};
use binnacle_registry::{Context, RequestNotes, Warnings, audited_json, record_request_object};
use binnacle_request::{Query, Record, RequestInfo, User};
use binnacle_schema::Value;
use http::Method;

/// The auditor of a cluster, for writes of its controllers.
pub struct WriteAuditor {
    auditor: Arc<Auditor>,
    /// Annotations of all events.
    annotations: Vec<(Text, Text)>,
    /// The beginning of the user agent, to which the user's name is added.
    program: Text,
}

/// The audit events of one write. There are none without an auditor, or if the policy excludes the write.
#[derive(Default)]
pub struct WriteTrail(Option<AuditedWrite>);

struct AuditedWrite {
    trail: Trail,
    record: Arc<Record>,
}

impl WriteAuditor {
    /// `program` is the name and the version of this program, as in user agents.
    pub fn new(auditor: Arc<Auditor>, annotations: Vec<(Text, Text)>, program: Text) -> Self {
        Self { auditor, annotations, program }
    }

    /// Records that a write begins, with the method and the path of the request that it would be over HTTP.
    ///
    /// Fails if the backend refuses the event, as that request would.
    pub async fn begin(&self, method: Method, path: &str, user: &Arc<User>) -> Result<WriteTrail, Status> {
        let info = RequestInfo::parse(&method, path, &Query::default(), path);
        let info = info.map_err(|error| Status::internal(error.to_string()))?;
        let record = Record::open(method, path.into(), None, None);
        let agent = format!("{}/{}", self.program, user.name);
        let trail = Trail::new(self.auditor.clone(), record.clone(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], &agent);
        self.annotations.iter().for_each(|(key, value)| record.annotate(key, value));
        if !trail.begin(&Arc::new(info), Some(user)) {
            return Ok(WriteTrail(None));
        }
        if !trail.received().await {
            trail.end();
            return Err(Status::internal("failed to store audit event"));
        }
        Ok(WriteTrail(Some(AuditedWrite { trail, record })))
    }
}

impl WriteTrail {
    /// Makes the annotations of admission go to the events.
    pub(crate) fn annotated(&self, context: Context) -> Context {
        match &self.0 {
            Some(write) => context.with_notes(RequestNotes::new(Warnings::default(), write.record.clone())),
            None => context,
        }
    }

    pub(crate) fn request_object(&self, object: &Value) {
        if let Some(write) = &self.0 {
            record_request_object(&write.record, object);
        }
    }

    /// Records the outcome. `object` returns the object in the response to a successful write, if there is one.
    pub(crate) async fn end<T>(
        self,
        code: u16,
        result: &Result<T, Status>,
        object: impl FnOnce(&T) -> Option<Value> + Send,
    ) {
        let Some(AuditedWrite { trail, record }) = self.0 else { return };
        let (code, status) = match result {
            Ok(_) => (code, None),
            Err(status) => (status.code(), Some(Arc::new(status.clone()))),
        };
        trail.answered(&ResponseHead { code, status });
        if trail.max_recorded_body() > 0
            && let Some(object) = result.as_ref().ok().and_then(object)
        {
            let omits_managed_fields = record.audit().is_some_and(|audit| audit.noted().omit_managed_fields);
            trail.body("application/json", Some(&audited_json(&object, omits_managed_fields)));
        }
        trail.completed().await;
    }

    /// Records the status code of a response by another server.
    pub async fn end_with_code(self, code: u16) {
        if let Some(AuditedWrite { trail, .. }) = self.0 {
            trail.answered(&ResponseHead { code, status: None });
            trail.completed().await;
        }
    }
}
