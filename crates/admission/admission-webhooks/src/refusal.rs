//! Denials: converts the status in a webhook's response to that of the request.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{Status as StatusFields, StatusCause as CauseFields, StatusDetails as DetailsFields};
use binnacle_meta::{ForeignStatus, Status, StatusCause, StatusDetails, bounded_text, go_quote};
use binnacle_schema::{Value, json};

/// The length to which a webhook's message is truncated.
const MAX_MESSAGE: usize = 256 << 10;

/// Returns the status of a request that a webhook denied. Without a status, or with one of success, it is a 400.
pub(crate) fn refusal(webhook: &str, status: Option<&Value>) -> Status {
    let fields = FieldRef::<StatusFields>::root(status.unwrap_or(&Value::Null));
    let text = |field| fields.at(field).str();
    let denied = format!("admission webhook {} denied the request", go_quote(webhook));
    let message = match (text(StatusFields::MESSAGE), text(StatusFields::REASON)) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {}", bounded_text(message, MAX_MESSAGE)),
    };
    let metadata = fields.at(StatusFields::METADATA).object().filter(|members| !members.is_empty());
    let foreign = ForeignStatus {
        code: fields.at(StatusFields::CODE).int().and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
        status: match text(StatusFields::STATUS) {
            "" | "Success" => "Failure".to_owned(),
            other => other.to_owned(),
        },
        reason: text(StatusFields::REASON).to_owned(),
        metadata: metadata.map(|_| json::to_string(fields.at(StatusFields::METADATA).value())),
    };
    Status::foreign(foreign, message, fields.at(StatusFields::DETAILS).set().map(details))
}

fn details(fields: FieldRef<DetailsFields>) -> StatusDetails {
    let text = |field| fields.at(field).str().to_owned();
    let cause = |cause: FieldRef<CauseFields>| StatusCause {
        reason: cause.at(CauseFields::REASON).str().to_owned(),
        message: cause.at(CauseFields::MESSAGE).str().to_owned(),
        field: cause.at(CauseFields::FIELD).str().to_owned(),
    };
    StatusDetails {
        name: text(DetailsFields::NAME),
        group: text(DetailsFields::GROUP),
        kind: text(DetailsFields::KIND),
        uid: text(DetailsFields::UID),
        causes: fields.at(DetailsFields::CAUSES).values().map(cause).collect(),
        retry_after_seconds: fields
            .at(DetailsFields::RETRY_AFTER_SECONDS)
            .int()
            .and_then(|seconds| i32::try_from(seconds).ok())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn converts_the_status_of_a_webhook() {
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
        let negative = refusal("w", Some(&value!({"details": {"retryAfterSeconds": (-5i64)}})));
        assert_eq!(negative.details().map(|details| details.retry_after_seconds), Some(-5));
        let text = refusal("w", Some(&status)).to_json();
        assert_eq!(
            text,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"c"},"status":"Odd","message":"admission webhook \"w\" denied the request: m","details":{"name":"n","causes":[{"field":"f"}],"retryAfterSeconds":7},"code":499}"#
        );
    }
}
