//! `audit.k8s.io/v1` Event: the record of one stage of a request.

mod json;
mod legacy;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_meta::{MicroTime, Status, Text};
use binnacle_request::{AuditLevel, ImpersonatedUser, User};
use bytes::Bytes;

pub(crate) use json::{encode_item, encode_line, encode_list, encode_list_of_items, encoded_size};
pub(crate) use legacy::line as legacy_line;

/// The stage of a request for which an event is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request was authenticated and has not been handled yet.
    RequestReceived,
    /// The response head is about to be sent. Only for long-running requests.
    ResponseStarted,
    /// The response was sent completely, or the client is gone.
    ResponseComplete,
    /// A panic ended the request.
    Panic,
}

impl Stage {
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<T: IntoIterator<Item = Stage>>(stages: T) -> Self {
        Self(stages.into_iter().fold(0, |bits, stage| bits | 1 << stage as u8))
    }
}

/// An audit event.
#[derive(Clone, Debug)]
pub struct Event {
    pub level: AuditLevel,
    pub audit_id: Text,
    pub stage: Stage,
    /// Path and query as the client sent them.
    pub request_uri: Text,
    pub verb: Text,
    /// The authenticated user, even if they impersonate another one. Absent if authentication failed.
    pub user: Option<Arc<User>>,
    pub impersonated: Option<ImpersonatedUser>,
    /// From the client to the last hop; all but the last are claims of the client.
    pub source_ips: Arc<[IpAddr]>,
    pub user_agent: Text,
    /// Absent for non-resource requests.
    pub object: Option<ObjectReference>,
    /// Absent before the response.
    pub status: Option<ResponseStatus>,
    /// As JSON, like `response_object`.
    pub request_object: Option<Bytes>,
    pub response_object: Option<Bytes>,
    pub received: SystemTime,
    pub stage_time: SystemTime,
    pub annotations: BTreeMap<Text, Text>,
}

impl Event {
    /// Returns an estimate of the event's memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let objects = [&self.request_object, &self.response_object].into_iter().flatten();
        let texts = [&self.request_uri, &self.user_agent].into_iter();
        let annotations = self.annotations.iter().map(|(name, value)| name.len() + value.len());
        let variable = objects.map(Bytes::len).chain(texts.map(|text| text.len())).chain(annotations);
        size_of::<Self>() + variable.sum::<usize>()
    }
}

/// The object of a request. Empty strings are omitted fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    pub resource: Text,
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub api_group: Text,
    pub api_version: Text,
    pub resource_version: Text,
    pub subresource: Text,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub enum ResponseStatus {
    /// The response was not a Status; only its code is known.
    Code(u16),
    /// The response was a Status.
    Status(Arc<Status>, u16),
    /// Authentication failed; the message names the authentication methods of the server.
    Unauthenticated(String),
    /// The server failed without a Status.
    Failure { code: u16, reason: &'static str, message: String },
    /// The client closed the connection before it got a response.
    ClosedEarly,
}

impl ResponseStatus {
    pub fn code(&self) -> u16 {
        match self {
            Self::Code(code) | Self::Status(_, code) | Self::Failure { code, .. } => *code,
            Self::Unauthenticated(_) => 401,
            Self::ClosedEarly => 200,
        }
    }
}

/// Converts a time to the API's MicroTime.
fn micro_time(time: SystemTime) -> MicroTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    MicroTime::from_unix(since.as_secs() as i64, since.subsec_nanos())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use binnacle_meta::GroupResource;

    use super::*;

    /// Returns an event in which every field is set.
    pub(crate) fn full_event() -> Event {
        let mut user = User::new("jane", &["dev", "system:authenticated"]);
        user.uid = "7".into();
        user.extra.insert("scopes".into(), vec!["a".into(), "b".into()]);
        let received = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        Event {
            level: AuditLevel::RequestResponse,
            audit_id: "id-1".into(),
            stage: Stage::ResponseComplete,
            request_uri: "/api/v1/namespaces/n/pods?a=1&b=2".into(),
            verb: "create".into(),
            user: Some(Arc::new(user)),
            impersonated: Some(ImpersonatedUser { user: Arc::new(User::new("bob", &["x"])), constraint: "".into() }),
            source_ips: [IpAddr::from([10, 0, 0, 1]), IpAddr::from([127, 0, 0, 1])].into(),
            user_agent: "kubectl/v1.36".into(),
            object: Some(ObjectReference {
                resource: "pods".into(),
                namespace: "n".into(),
                name: "p".into(),
                api_version: "v1".into(),
                ..ObjectReference::default()
            }),
            status: Some(ResponseStatus::Status(
                Arc::new(Status::not_found(&GroupResource::new("", "pods"), "p")),
                404,
            )),
            request_object: Some(Bytes::from_static(b"{\"kind\":\"Pod\"}")),
            response_object: Some(Bytes::from_static(b"{\"kind\":\"Status\"}")),
            received,
            stage_time: received + Duration::from_millis(1),
            annotations: [("b".into(), "<2>".into()), ("a".into(), "1".into())].into(),
        }
    }

    #[test]
    fn stages_contain_members_and_parse_is_case_sensitive() {
        let set: Stages = [Stage::Panic, Stage::RequestReceived].into_iter().collect();
        assert!(set.contains(Stage::Panic) && !set.contains(Stage::ResponseComplete));
        assert!(set.union([Stage::ResponseComplete].into_iter().collect()).contains(Stage::ResponseComplete));
        assert_eq!(Stage::parse("Panic"), Some(Stage::Panic));
        assert_eq!(Stage::parse("panic"), None);
    }
}
