//! Outcomes of remote commands, as the kubelet writes them to its error stream and as clients receive them.

use serde_json::{Value, json};

/// The versions of the remote command protocol over SPDY, in order of preference.
pub(crate) const VERSIONS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// The command ended with a non-zero exit code.
    Exit(u8),
    Failed(String),
}

impl Outcome {
    /// Parses the contents of an error stream. Before version 4, they are the error message.
    pub(crate) fn of_error_stream(version: &str, text: &[u8]) -> Self {
        if text.is_empty() {
            return Self::Success;
        }
        match version {
            "v5.channel.k8s.io" | "v4.channel.k8s.io" => Self::of_status(text),
            "v3.channel.k8s.io" | "v2.channel.k8s.io" => {
                Self::Failed(format!("error executing remote command: {}", String::from_utf8_lossy(text)))
            }
            _ => Self::Failed(format!("Error executing remote command: {}", String::from_utf8_lossy(text))),
        }
    }

    fn of_status(text: &[u8]) -> Self {
        let wrong = |why: &str| Self::Failed(format!("error stream protocol error: {why}"));
        let Ok(status) = serde_json::from_slice::<Value>(text) else {
            let quoted = binnacle_meta::go_quote(&String::from_utf8_lossy(text));
            return wrong(&format!("invalid status in {quoted}"));
        };
        match status["status"].as_str() {
            Some("Success") => return Self::Success,
            Some("Failure") => {}
            _ => return wrong("unknown error"),
        }
        if status["reason"] != "NonZeroExitCode" {
            return Self::Failed(status["message"].as_str().unwrap_or_default().to_owned());
        }
        if !status["details"].is_object() {
            return wrong("details must be set");
        }
        let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(cause) = causes.iter().find(|cause| cause["reason"] == "ExitCode") else {
            return wrong("no ExitCode cause given");
        };
        let code = cause["message"].as_str().unwrap_or_default();
        match code.parse() {
            Ok(code) => Self::Exit(code),
            Err(_) => wrong(&format!("invalid exit code value {}", binnacle_meta::go_quote(code))),
        }
    }

    /// Returns the Status that ends the client's session.
    pub(crate) fn status(&self) -> String {
        let status = match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exit(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!(
                    "command terminated with non-zero exit code: command terminated with exit code {code}"
                ),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}
            }),
            Self::Failed(why) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {why}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": why}]},
                "code": 500
            }),
        };
        status.to_string()
    }

    /// Returns the status code for metrics. A failed command is not a failed stream.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Success | Self::Exit(_) => 200,
            Self::Failed(_) => 500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_error_streams_of_every_version() {
        let failed = |why: &str| Outcome::Failed(why.to_owned());
        for (version, text, want) in [
            ("v4.channel.k8s.io", "", Outcome::Success),
            ("v5.channel.k8s.io", r#"{"metadata":{},"status":"Success"}"#, Outcome::Success),
            (
                "v4.channel.k8s.io",
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
                Outcome::Exit(3),
            ),
            (
                "v4.channel.k8s.io",
                r#"{"status":"Failure","reason":"InternalError","message":"no such container"}"#,
                failed("no such container"),
            ),
            (
                "v4.channel.k8s.io",
                r#"{"status":"Failure","reason":"NonZeroExitCode"}"#,
                failed("error stream protocol error: details must be set"),
            ),
            (
                "v4.channel.k8s.io",
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#,
                failed("error stream protocol error: no ExitCode cause given"),
            ),
            (
                "v4.channel.k8s.io",
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"256"}]}}"#,
                failed("error stream protocol error: invalid exit code value \"256\""),
            ),
            ("v4.channel.k8s.io", "{}", failed("error stream protocol error: unknown error")),
            ("v4.channel.k8s.io", "oops", failed("error stream protocol error: invalid status in \"oops\"")),
            ("v3.channel.k8s.io", "oops", failed("error executing remote command: oops")),
            ("", "oops", failed("Error executing remote command: oops")),
        ] {
            assert_eq!(Outcome::of_error_stream(version, text.as_bytes()), want, "{version} {text}");
        }
    }

    /// The next server can parse the Status that this server writes.
    #[test]
    fn round_trips_outcomes_as_status() {
        for outcome in [Outcome::Success, Outcome::Exit(7)] {
            assert_eq!(Outcome::of_error_stream("v5.channel.k8s.io", outcome.status().as_bytes()), outcome);
        }
    }
}
