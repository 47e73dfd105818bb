//! Failures with the Status of another server, such as an admission webhook, which is passed on.

use super::{Status, StatusDetails, StatusReason};

/// A `Status` of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignStatus {
    /// At least 400. Also the HTTP status code if it is a valid one.
    pub code: i32,
    /// `Failure`, or an unknown value.
    pub status: String,
    /// Any reason; empty if there is none.
    pub reason: String,
    /// The metadata of a list, as a JSON object.
    pub metadata: Option<String>,
}

impl Status {
    /// Creates a failure from another server's Status. A code below 400 becomes 400, because it would mean success.
    pub fn foreign(mut foreign: ForeignStatus, message: impl Into<String>, details: Option<StatusDetails>) -> Self {
        foreign.code = foreign.code.max(400);
        let code = u16::try_from(foreign.code).ok().filter(|code| *code < 1000).unwrap_or(500);
        Self {
            details: details.map(Box::new),
            reason: Some(StatusReason::named(&foreign.reason)),
            foreign: Some(Box::new(foreign)),
            ..Self::plain(StatusReason::Unknown, code, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preserves_the_members_of_a_foreign_status() {
        let status = |code, status: &str, reason: &str| {
            let foreign = ForeignStatus { code, status: status.to_owned(), reason: reason.to_owned(), metadata: None };
            Status::foreign(foreign, "m", None)
        };
        for (given, code, reason, text) in [
            (
                status(418, "Failure", "Teapot"),
                418,
                StatusReason::Unknown,
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Teapot","code":418}"#,
            ),
            (
                status(200, "Odd", "NotFound"),
                400,
                StatusReason::NotFound,
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Odd","message":"m","reason":"NotFound","code":400}"#,
            ),
            (
                status(70_000, "Failure", ""),
                500,
                StatusReason::Unknown,
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","code":70000}"#,
            ),
        ] {
            assert_eq!((given.code(), given.is(reason), given.to_json().as_str()), (code, true, text));
        }
    }
}
