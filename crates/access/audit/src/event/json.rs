//! Encodes events as `audit.k8s.io/v1` JSON, with the fields in kube-apiserver's order.

use binnacle_meta::{Status, StatusDetails};
use binnacle_request::User;
use binnacle_schema::json::write_string;

use super::{Event, ObjectReference, ResponseStatus, micro_time};

/// Encodes an event as a line of the log.
pub(crate) fn encode_line(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#);
    write_members(event, out);
    out.extend_from_slice(b"}\n");
}

/// Returns the number of bytes that [`encode_line`] writes.
pub(crate) fn encoded_size(event: &Event) -> usize {
    let mut out = Vec::with_capacity(1024);
    encode_line(event, &mut out);
    out.len()
}

/// The prefix of an `EventList`.
const LIST: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

/// Encodes events as an `EventList`, the request body of webhooks. Items have no kind and apiVersion.
pub(crate) fn encode_list<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(LIST);
    for (at, event) in events.into_iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        write_members(event, &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}\n");
    out
}

/// Encodes an event as an item of an `EventList`.
pub(crate) fn encode_item(event: &Event, out: &mut Vec<u8>) {
    out.push(b'{');
    write_members(event, out);
    out.push(b'}');
}

/// Encodes an `EventList` of encoded items.
pub(crate) fn encode_list_of_items(items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(LIST.len() + 3 + items.iter().map(|item| item.len() + 1).sum::<usize>());
    out.extend_from_slice(LIST);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.extend_from_slice(b"]}\n");
    out
}

fn write_members(event: &Event, out: &mut Vec<u8>) {
    let mut object = ObjectWriter { out, first: true };
    object.text("level", event.level.as_str());
    object.text("auditID", &event.audit_id);
    object.text("stage", event.stage.as_str());
    object.text("requestURI", &event.request_uri);
    object.text("verb", &event.verb);
    object.name("user");
    match &event.user {
        Some(user) => write_user(user, object.out),
        None => object.out.extend_from_slice(b"{}"),
    }
    if let Some(impersonated) = &event.impersonated {
        object.name("impersonatedUser");
        write_user(&impersonated.user, object.out);
        if !impersonated.constraint.is_empty() {
            object.nested("authenticationMetadata", |inner| {
                inner.text("impersonationConstraint", &impersonated.constraint);
            });
        }
    }
    if !event.source_ips.is_empty() {
        object.list("sourceIPs", event.source_ips.iter(), |ip, out| write_string(&ip.to_string(), out));
    }
    object.text_unless_empty("userAgent", &event.user_agent);
    if let Some(reference) = &event.object {
        object.nested("objectRef", |inner| write_reference(reference, inner));
    }
    if let Some(status) = &event.status {
        object.nested("responseStatus", |inner| write_status(status, inner));
    }
    for (name, json) in [("requestObject", &event.request_object), ("responseObject", &event.response_object)] {
        if let Some(json) = json {
            object.name(name);
            object.out.extend_from_slice(json.trim_ascii());
        }
    }
    object.text("requestReceivedTimestamp", &micro_time(event.received).to_string());
    object.text("stageTimestamp", &micro_time(event.stage_time).to_string());
    if !event.annotations.is_empty() {
        object.nested("annotations", |inner| {
            event.annotations.iter().for_each(|(key, value)| inner.text(key, value));
        });
    }
}

fn write_user(user: &User, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut object = ObjectWriter { out, first: true };
    object.text_unless_empty("username", &user.name);
    object.text_unless_empty("uid", &user.uid);
    if !user.groups.is_empty() {
        object.list("groups", user.groups.iter(), |group, out| write_string(group, out));
    }
    if !user.extra.is_empty() {
        object.nested("extra", |inner| {
            for (key, values) in &user.extra {
                inner.list(key, values.iter(), |value, out| write_string(value, out));
            }
        });
    }
    out.push(b'}');
}

fn write_reference(reference: &ObjectReference, object: &mut ObjectWriter<'_>) {
    object.text_unless_empty("resource", &reference.resource);
    object.text_unless_empty("namespace", &reference.namespace);
    object.text_unless_empty("name", &reference.name);
    object.text_unless_empty("uid", &reference.uid);
    object.text_unless_empty("apiGroup", &reference.api_group);
    object.text_unless_empty("apiVersion", &reference.api_version);
    object.text_unless_empty("resourceVersion", &reference.resource_version);
    object.text_unless_empty("subresource", &reference.subresource);
}

/// Writes the fields of a Status whose size is bounded, as kube-apiserver does.
fn write_status(status: &ResponseStatus, object: &mut ObjectWriter<'_>) {
    object.nested("metadata", |_| {});
    match status {
        ResponseStatus::Code(_) => {}
        ResponseStatus::Unauthenticated(message) => object.text("message", message),
        ResponseStatus::Status(status, _) => write_full_status(status, object),
        ResponseStatus::Failure { reason, message, .. } => {
            object.text("status", "Failure");
            object.text("message", message);
            object.text("reason", reason);
        }
        ResponseStatus::ClosedEarly => {
            object.text("status", "Success");
            object.text("message", "Connection closed early");
        }
    }
    object.name("code");
    object.out.extend_from_slice(status.code().to_string().as_bytes());
}

fn write_full_status(status: &Status, object: &mut ObjectWriter<'_>) {
    object.text("status", status.outcome());
    object.text_unless_empty("message", status.message());
    object.text_unless_empty("reason", status.reason_text());
    if let Some(details) = status.details() {
        object.nested("details", |inner| write_details(details, inner));
    }
}

fn write_details(details: &StatusDetails, object: &mut ObjectWriter<'_>) {
    object.text_unless_empty("name", &details.name);
    object.text_unless_empty("group", &details.group);
    object.text_unless_empty("kind", &details.kind);
    object.text_unless_empty("uid", &details.uid);
    if !details.causes.is_empty() {
        object.list("causes", details.causes.iter(), |cause, out| {
            out.push(b'{');
            let mut object = ObjectWriter { out, first: true };
            object.text_unless_empty("reason", &cause.reason);
            object.text_unless_empty("message", &cause.message);
            object.text_unless_empty("field", &cause.field);
            out.push(b'}');
        });
    }
    if details.retry_after_seconds != 0 {
        object.name("retryAfterSeconds");
        object.out.extend_from_slice(details.retry_after_seconds.to_string().as_bytes());
    }
}

/// Writes the fields of a JSON object. The caller writes the braces.
struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl ObjectWriter<'_> {
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        write_string(name, self.out);
        self.out.push(b':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_string(text, self.out);
    }

    fn text_unless_empty(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    fn nested(&mut self, name: &str, with: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        self.out.push(b'{');
        with(&mut ObjectWriter { out: self.out, first: true });
        self.out.push(b'}');
    }

    fn list<T>(&mut self, name: &str, items: impl Iterator<Item = T>, write: impl Fn(T, &mut Vec<u8>)) {
        self.name(name);
        self.out.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(item, self.out);
        }
        self.out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, json};

    use super::super::tests::full_event;
    use super::*;

    #[test]
    fn encodes_all_members_in_the_order_of_kube_apiserver() {
        let mut out = Vec::new();
        encode_line(&full_event(), &mut out);
        let want = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id-1","#,
            r#""stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/pods?a=1\u0026b=2","verb":"create","#,
            r#""user":{"username":"jane","uid":"7","groups":["dev","system:authenticated"],"extra":{"scopes":["a","b"]}},"#,
            r#""impersonatedUser":{"username":"bob","groups":["x"]},"sourceIPs":["10.0.0.1","127.0.0.1"],"#,
            r#""userAgent":"kubectl/v1.36","objectRef":{"resource":"pods","namespace":"n","name":"p","apiVersion":"v1"},"#,
            r#""responseStatus":{"metadata":{},"status":"Failure","message":"pods \"p\" not found","reason":"NotFound","#,
            r#""details":{"name":"p","kind":"pods"},"code":404},"requestObject":{"kind":"Pod"},"#,
            r#""responseObject":{"kind":"Status"},"requestReceivedTimestamp":"2023-11-14T22:13:20.123456Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:20.124456Z","annotations":{"a":"1","b":"\u003c2\u003e"}}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out.clone()).unwrap(), want);
        assert_eq!(encoded_size(&full_event()), out.len());
        json::parse(&out, &Limits::default()).unwrap();
    }

    #[test]
    fn omits_absent_members() {
        let event = Event {
            user: None,
            impersonated: None,
            source_ips: [].into(),
            user_agent: "".into(),
            object: None,
            status: Some(ResponseStatus::Code(200)),
            request_object: None,
            response_object: None,
            annotations: Default::default(),
            ..full_event()
        };
        let list = String::from_utf8(encode_list([&event, &event])).unwrap();
        let one = concat!(
            r#"{"level":"RequestResponse","auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces/n/pods?a=1\u0026b=2","verb":"create","user":{},"#,
            r#""responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2023-11-14T22:13:20.123456Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:20.124456Z"}"#,
        );
        let head = r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
        assert_eq!(list, format!("{head}{one},{one}]}}\n"));
    }
}
