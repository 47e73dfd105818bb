//! Refusals: conversion of a webhook's status to the status of the request.

use binnacle_meta::{ForeignStatus, Status, StatusCause, StatusDetails, bounded_text, go_quote};
use binnacle_schema::{Value, json};

/// The maximum length of a webhook's message.
const MAX_MESSAGE: usize = 256 << 10;

/// Returns the status for a refused request. Without a status, or with one of success, it is a bad request.
pub(crate) fn refusal(webhook: &str, status: Option<&Value>) -> Status {
    let empty = Value::Null;
    let said = status.unwrap_or(&empty);
    let text = |member: &str| said.str_at(&[member]);
    let denied = format!("admission webhook {} denied the request", go_quote(webhook));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {}", bounded_text(message, MAX_MESSAGE)),
    };
    let metadata =
        said.get("metadata").filter(|metadata| metadata.as_object().is_some_and(|members| !members.is_empty()));
    let foreign = ForeignStatus {
        code: said.int_at(&["code"]).and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
        status: match text("status") {
            "" | "Success" => "Failure".to_owned(),
            other => other.to_owned(),
        },
        reason: text("reason").to_owned(),
        metadata: metadata.map(json::to_string),
    };
    Status::foreign(foreign, message, said.get("details").filter(|details| !details.is_null()).map(details))
}

fn details(said: &Value) -> StatusDetails {
    let text = |value: &Value, member: &str| value.str_at(&[member]).to_owned();
    let cause = |cause: &Value| StatusCause {
        reason: text(cause, "reason"),
        message: text(cause, "message"),
        field: text(cause, "field"),
    };
    StatusDetails {
        name: text(said, "name"),
        group: text(said, "group"),
        kind: text(said, "kind"),
        uid: text(said, "uid"),
        causes: said.list_at(&["causes"]).iter().map(cause).collect(),
        retry_after_seconds: said
            .int_at(&["retryAfterSeconds"])
            .and_then(|seconds| i32::try_from(seconds).ok())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn refusals() {
        let denied = "admission webhook \"w\" denied the request";
        for (status, code, reason, message) in [
            (None, 400, "", format!("{denied} without explanation")),
            (Some(value!({"status": "Success", "code": 200})), 400, "", format!("{denied} without explanation")),
            (Some(value!({"reason": "Why"})), 400, "Why", format!("{denied}: Why")),
            (
                Some(value!({"message": "not today", "code": 418, "reason": "Teapot"})),
                418,
                "Teapot",
                format!("{denied}: not today"),
            ),
            (Some(value!({"code": 302})), 400, "", format!("{denied} without explanation")),
        ] {
            let refused = refusal("w", status.as_ref());
            assert_eq!(
                (refused.code(), refused.reason_text(), refused.message(), refused.outcome()),
                (code, reason, message.as_str(), "Failure")
            );
        }
        let status = value!({
            "status": "Odd", "code": 499, "message": "m",
            "metadata": {"continue": "c"},
            "details": {"name": "n", "retryAfterSeconds": 7, "causes": [{"field": "f"}]},
        });
        let in_vain = refusal("w", Some(&value!({"details": {"retryAfterSeconds": (-5i64)}})));
        assert_eq!(in_vain.details().map(|details| details.retry_after_seconds), Some(-5));
        let text = refusal("w", Some(&status)).to_json();
        assert_eq!(
            text,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"c"},"status":"Odd","message":"admission webhook \"w\" denied the request: m","details":{"name":"n","causes":[{"field":"f"}],"retryAfterSeconds":7},"code":499}"#
        );
    }
}
