//! `Status`, the response to every failed request (and to successful deletes). There is one constructor for each
//! reason, so that code, reason, message and details are always consistent.

mod details;
mod foreign;
mod of_server;
mod reason;

pub use self::details::{StatusCause, StatusDetails};
pub use self::foreign::ForeignStatus;
pub use self::reason::StatusReason;
use crate::{FieldError, FieldErrorType, FieldErrors, GroupKind, GroupResource, aggregate, go_quote};

/// Returns the errors that the response lists.
fn listed_errors(errors: &FieldErrors) -> &[FieldError] {
    let mut bytes = 0;
    let fits = |error: &FieldError| {
        bytes += error.field.as_str().len() + error.body().len();
        bytes <= FieldErrors::SHOWN_BYTES
    };
    // At least one error fits: its size is limited.
    let count = errors.iter().take(FieldErrors::SHOWN).map(fits).take_while(|fits| *fits).count();
    &errors[..count]
}

/// `metav1.Status`. Failures are created by the constructors, the success of a delete by [`Status::success`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `None` for success.
    reason: Option<StatusReason>,
    code: u16,
    message: String,
    /// Boxed: most handlers return `Result<_, Status>`, which should stay small.
    details: Option<Box<StatusDetails>>,
    /// `metadata.continue`: the token that continues an expired list.
    continue_token: String,
    has_code: bool,
    /// Further members of another server's Status.
    foreign: Option<Box<ForeignStatus>>,
}

impl Status {
    /// Creates the response to a delete that removed the object.
    pub fn success(details: StatusDetails) -> Self {
        Self {
            reason: None,
            code: 200,
            message: String::new(),
            details: Some(Box::new(details)),
            continue_token: String::new(),
            // A successful delete has no code, and kube-apiserver omits the zero value.
            has_code: false,
            foreign: None,
        }
    }

    /// Creates the response to a completed action (a binding, an eviction).
    pub fn carried_out() -> Self {
        Self {
            reason: None,
            code: 201,
            message: String::new(),
            details: None,
            continue_token: String::new(),
            has_code: true,
            foreign: None,
        }
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(StatusReason::NotFound, 404, format!("{resource} {} not found", go_quote(name)), resource, name)
    }

    /// 404 for a path that no handler serves.
    pub fn path_not_found() -> Self {
        Self::plain(StatusReason::NotFound, 404, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(
            StatusReason::AlreadyExists,
            409,
            format!("{resource} {} already exists", go_quote(name)),
            resource,
            name,
        )
    }

    /// `generateName` produced existing names too often: 409 with a hint to retry, or 429 if there is no free name.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: i32) -> Self {
        let mut status = Self::about(
            StatusReason::AlreadyExists,
            409,
            format!(
                "{resource} {} already exists, the server was not able to generate a unique name for the object",
                go_quote(name)
            ),
            resource,
            name,
        );
        if let Some(details) = &mut status.details {
            details.retry_after_seconds = retry_after_seconds;
        }
        status
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        let message = message.into();
        let message = if message.is_empty() { "not authorized".to_owned() } else { message };
        Self::plain(StatusReason::Unauthorized, 401, message)
    }

    /// `resource "name" is forbidden: why`. An empty resource or name is omitted.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = if resource.resource.is_empty() && resource.group.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", go_quote(name))
        };
        Self::about(StatusReason::Forbidden, 403, message, resource, name)
    }

    /// An error of another server, passed on unchanged.
    pub fn forbidden_remote(message: impl Into<String>) -> Self {
        Self::plain(StatusReason::Forbidden, 403, message)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        Self::about(
            StatusReason::Conflict,
            409,
            format!("Operation cannot be fulfilled on {resource} {}: {why}", go_quote(name)),
            resource,
            name,
        )
    }

    /// Conflict of server-side apply with fields of other managers.
    pub fn apply_conflict(causes: Vec<StatusCause>, message: impl Into<String>) -> Self {
        Self::plain(StatusReason::Conflict, 409, message)
            .with_details(StatusDetails { causes, ..StatusDetails::default() })
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::plain(StatusReason::Gone, 410, message)
    }

    /// A resourceVersion or continue token that is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(StatusReason::Expired, 410, message)
    }

    /// Failed validation, with one cause per error. Equal errors appear only once in the message.
    ///
    /// kube-apiserver lists all errors. Here the number and size of the listed errors are limited, and a last sentence
    /// and cause state that there are more.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &FieldErrors) -> Self {
        let listed = listed_errors(errors);
        let cut = listed.len() < errors.len();
        let mut message = format!("{kind} {} is invalid", go_quote(name));
        if !listed.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(listed));
        }
        let mut causes: Vec<StatusCause> = listed
            .iter()
            .map(|e| StatusCause {
                reason: e.kind.reason().to_owned(),
                message: e.body().to_owned(),
                field: e.field.to_string(),
            })
            .collect();
        if cut {
            let more = format!("too many errors: only the first {} are shown", listed.len());
            message.push_str("; ");
            message.push_str(&more);
            causes.push(StatusCause {
                reason: FieldErrorType::TooMany.reason().to_owned(),
                message: more,
                field: String::new(),
            });
        }
        Self::plain(StatusReason::Invalid, 422, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            causes,
            ..StatusDetails::default()
        })
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(StatusReason::BadRequest, 400, message)
    }

    /// `verb is not supported on resources of kind "resource"`.
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        Self::about(
            StatusReason::MethodNotAllowed,
            405,
            format!("{verb} is not supported on resources of kind {}", go_quote(&resource.to_string())),
            resource,
            "",
        )
    }

    pub fn method_not_allowed() -> Self {
        Self::plain(
            StatusReason::MethodNotAllowed,
            405,
            "the server does not allow this method on the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// Returns the status for a write that reaches a server which only reads its store.
    pub fn read_only() -> Self {
        let text =
            "this server is read-only (--read-only): send the request to the kube-apiserver that writes the store";
        Self::plain(StatusReason::MethodNotAllowed, 405, text).with_details(StatusDetails::default())
    }

    /// Returns the status for a request that does not only read a cluster as it was at an earlier revision.
    pub fn past(revision: u64) -> Self {
        let text =
            format!("objects as of revision {revision} can only be read: no changes, watches, or sessions with pods");
        Self::plain(StatusReason::MethodNotAllowed, 405, text).with_details(StatusDetails::default())
    }

    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::plain(
            StatusReason::NotAcceptable,
            406,
            format!("only the following media types are accepted: {}", accepted.join(", ")),
        )
    }

    /// 406 with the message of kube-apiserver's router, which compares types without parameters before it calls a
    /// handler.
    pub fn router_not_acceptable(available: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Self::plain(StatusReason::NotAcceptable, 406, message).with_details(StatusDetails::default())
    }

    /// 415 with the message of kube-apiserver's router.
    pub fn router_unsupported_media_type() -> Self {
        Self::plain(StatusReason::UnsupportedMediaType, 415, "415: Unsupported Media Type")
            .with_details(StatusDetails::default())
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::plain(
            StatusReason::UnsupportedMediaType,
            415,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    pub fn request_entity_too_large(message: impl std::fmt::Display) -> Self {
        Self::plain(StatusReason::RequestEntityTooLarge, 413, format!("Request entity too large: {message}"))
    }

    /// 504: the request exceeded its time limit.
    pub fn timeout(message: impl std::fmt::Display, retry_after_seconds: i32) -> Self {
        Self::plain(StatusReason::Timeout, 504, format!("Timeout: {message}"))
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    /// 504 with the cause for a resourceVersion that is newer than any this server has seen.
    pub fn too_large_resource_version(requested: u64, current: u64, retry_after_seconds: i32) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self::plain(StatusReason::Timeout, 504, format!("Timeout: {message}")).with_details(StatusDetails {
            causes: vec![StatusCause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds,
            ..StatusDetails::default()
        })
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::plain(StatusReason::TooManyRequests, 429, message)
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    /// 429 for too many requests, with no details except the reason.
    pub fn rate_limited(why: impl std::fmt::Display) -> Self {
        Self::plain(StatusReason::TooManyRequests, 429, format!("Too many requests: {why}"))
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::plain(StatusReason::ServiceUnavailable, 503, message)
    }

    /// 500 with the error. Clients see it, so it must not contain secrets.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        let text = error.to_string();
        Self::plain(StatusReason::InternalError, 500, format!("Internal error occurred: {text}")).with_details(
            StatusDetails {
                causes: vec![StatusCause { message: text, ..StatusCause::default() }],
                ..StatusDetails::default()
            },
        )
    }

    /// 500 for a list with unreadable objects. `with_cause` adds their names.
    pub fn store_read_error(resource: &GroupResource) -> Self {
        let message = format!("failed to read one or more {resource} from the storage");
        Self::plain(StatusReason::StoreReadError, 500, message).with_details(StatusDetails {
            name: "list".to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..StatusDetails::default()
        })
    }

    /// A failure without a reason: an error that kube-apiserver passes on unchanged.
    pub fn unknown(code: u16, message: &str) -> Self {
        Self::plain(StatusReason::Unknown, code.max(400), message)
    }

    /// 422 without an explanation: kube-apiserver's response to a JSON patch that cannot be applied.
    pub fn unprocessable() -> Self {
        Self::plain(StatusReason::Invalid, 422, "the server rejected our request due to an error in our request")
            .with_details(StatusDetails::default())
    }

    /// 422 for a request that needs more work than the server allows for one request.
    pub fn too_much_work(message: impl std::fmt::Display) -> Self {
        Self::plain(StatusReason::Invalid, 422, message.to_string()).with_details(StatusDetails::default())
    }

    /// 406 with this message.
    pub fn not_acceptable_text(message: &str) -> Self {
        Self::plain(StatusReason::NotAcceptable, 406, message)
    }

    /// Replaces the details (causes of an eviction, the retry hint of a webhook that is not ready).
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Replaces the message, but not the machine-readable members.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Replaces the reason and the code of a failure, but not its details.
    #[must_use]
    pub fn because(self, reason: StatusReason, code: u16) -> Self {
        Self { reason: Some(reason), code, ..self }
    }

    /// Sets the token that continues an expired list, without consistency.
    #[must_use]
    pub fn with_continue(mut self, token: impl Into<String>) -> Self {
        self.continue_token = token.into();
        self
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.details.get_or_insert_default().causes.push(StatusCause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        });
        self
    }

    /// Includes the code in the JSON of a success; most successes omit it.
    #[must_use]
    pub fn with_code(self) -> Self {
        Self { has_code: true, ..self }
    }

    pub fn is_success(&self) -> bool {
        self.reason.is_none()
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        self.code
    }

    pub fn reason(&self) -> Option<StatusReason> {
        self.reason
    }

    /// Returns the reason as text, which may be defined by another server; empty if there is none.
    pub fn reason_text(&self) -> &str {
        match &self.foreign {
            Some(foreign) => &foreign.reason,
            None => self.reason.map_or("", StatusReason::as_str),
        }
    }

    /// Returns `Success`, `Failure`, or a value defined by another server.
    pub fn outcome(&self) -> &str {
        match &self.foreign {
            Some(foreign) => &foreign.status,
            None if self.is_success() => "Success",
            None => "Failure",
        }
    }

    pub fn is(&self, reason: StatusReason) -> bool {
        self.reason == Some(reason)
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn continue_token(&self) -> &str {
        &self.continue_token
    }

    pub fn details(&self) -> Option<&StatusDetails> {
        self.details.as_deref()
    }

    /// Encodes the Status as JSON, with members in kube-apiserver's order.
    pub fn to_json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::with_capacity(192 + self.message.len());
        let foreign = self.foreign.as_deref();
        out.push_str(r#"{"kind":"Status","apiVersion":"v1","metadata":"#);
        match foreign.and_then(|foreign| foreign.metadata.as_deref()) {
            Some(metadata) => out.push_str(metadata),
            None if self.continue_token.is_empty() => out.push_str("{}"),
            None => out.push_str(&format!("{{\"continue\":{}}}", quoted(&self.continue_token))),
        }
        out.push_str(",\"status\":");
        out.push_str(&quoted(self.outcome()));
        if !self.message.is_empty() {
            out.push_str(",\"message\":");
            out.push_str(&quoted(&self.message));
        }
        if !self.reason_text().is_empty() {
            out.push_str(",\"reason\":");
            out.push_str(&quoted(self.reason_text()));
        }
        if let Some(details) = &self.details {
            out.push_str(",\"details\":");
            details.write_json(&mut out, &quoted);
        }
        if self.has_code {
            out.push_str(&format!(",\"code\":{}", foreign.map_or(i32::from(self.code), |foreign| foreign.code)));
        }
        out.push('}');
        out
    }

    fn plain(reason: StatusReason, code: u16, message: impl Into<String>) -> Self {
        Self {
            reason: Some(reason),
            code,
            message: message.into(),
            details: None,
            continue_token: String::new(),
            has_code: true,
            foreign: None,
        }
    }

    fn about(reason: StatusReason, code: u16, message: String, resource: &GroupResource, name: &str) -> Self {
        Self::plain(reason, code, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..StatusDetails::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldError, FieldPath};

    #[test]
    fn encodes_statuses_like_kube_apiserver() {
        let pods = GroupResource::new("", "pods");
        for (status, want) in [
            (
                Status::not_found(&pods, "a"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}"#,
            ),
            (
                Status::path_not_found(),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
            ),
            (
                Status::success(StatusDetails::of(&"apps".into(), "deployments", "web", "u")),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"web","group":"apps","kind":"deployments","uid":"u"}}"#,
            ),
            (
                Status::unauthorized("Unauthorized"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
            ),
        ] {
            assert_eq!(status.to_json(), want);
        }
    }

    #[test]
    fn invalid_lists_equal_errors_once() {
        let error = FieldError::required(&FieldPath::new("spec"), "");
        let kind = GroupKind::new("apps", "Deployment");
        let status = Status::invalid(&kind, "web", &[error.clone(), error.clone()].into());
        assert_eq!(status.message(), "Deployment.apps \"web\" is invalid: spec: Required value");
        assert_eq!(status.details().map(|d| d.causes.len()), Some(2));
        let other = FieldError::required(&FieldPath::new("metadata").child("name"), "name or generateName is required");
        let status = Status::invalid(&kind, "", &[error, other].into());
        assert_eq!(
            status.message(),
            "Deployment.apps \"\" is invalid: [spec: Required value, metadata.name: Required value: name or generateName is required]"
        );
    }

    #[test]
    fn limits_the_listed_errors_and_reports_the_rest() {
        let kind = GroupKind::new("networking.k8s.io", "NetworkPolicy");
        let many = |count, detail: &str| -> FieldErrors {
            (0..count).map(|i| FieldError::required(&FieldPath::new("spec").index(i), detail)).collect()
        };
        for (errors, listed) in [
            (many(FieldErrors::SHOWN, ""), None),
            (many(FieldErrors::SHOWN + 1, ""), Some(FieldErrors::SHOWN)),
            (many(1_000_000, ""), Some(FieldErrors::SHOWN)),
            (many(100, &"x".repeat(4000)), Some(65)),
            (many(100, &"x".repeat(4_000_000)), Some(15)),
        ] {
            let status = Status::invalid(&kind, "web", &errors);
            let causes = status.details().map_or(&[][..], |details| &details.causes);
            match listed {
                None => assert_eq!(causes.len(), errors.len()),
                Some(listed) => {
                    let more = format!("too many errors: only the first {listed} are shown");
                    assert!(status.message().ends_with(&format!("]; {more}")), "{listed}");
                    let last = causes.last().map(|cause| (cause.reason.as_str(), cause.message.as_str()));
                    assert_eq!((causes.len(), last), (listed + 1, Some(("FieldValueTooMany", more.as_str()))));
                }
            }
            assert!(status.to_json().len() < 1 << 20, "{}", status.to_json().len());
        }
    }
}
