//! `PodLogOptions` in the query.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, GroupKind, Status, Time, go_quote, int_error};
use binnacle_request::Query;

use super::options::encode;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LogOptions {
    pub(super) container: String,
    pub(super) follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Time>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    pub(super) insecure_skip_tls_verify_backend: bool,
    stream: Option<String>,
}

impl LogOptions {
    /// Parses and validates the options; `pod` is the name for errors. With `split_streams`
    /// (`PodLogsQuerySplitStreams`) one of the container's streams can be selected.
    pub(super) fn of(query: &Query, pod: &str, split_streams: bool) -> Result<Self, Status> {
        let since_time = match query.get("sinceTime") {
            None | Some("" | "null") => query.contains("sinceTime").then(|| Time::from_unix(ZERO_TIME, 0)),
            Some(text) => Some(Time::parse(text).map_err(|error| Status::bad_request(error.to_string()))?),
        };
        let options = Self {
            container: query.get("container").unwrap_or_default().to_owned(),
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds: integer(query, "sinceSeconds")?,
            since_time,
            tail_lines: integer(query, "tailLines")?,
            limit_bytes: integer(query, "limitBytes")?,
            insecure_skip_tls_verify_backend: query.flag("insecureSkipTLSVerifyBackend"),
            stream: query.get("stream").or(split_streams.then_some("All")).map(str::to_owned),
        };
        let errors = options.validate(split_streams);
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod, &errors))
        }
    }

    fn validate(&self, split_streams: bool) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let at = FieldPath::new;
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid(&at("tailLines"), lines, "must be greater than or equal to 0"));
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            errors.push(FieldError::invalid(&at("limitBytes"), bytes, "must be greater than 0"));
        }
        match (self.since_seconds, &self.since_time) {
            (Some(_), Some(_)) => {
                // kube-apiserver's path has an element without a name.
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.push(FieldError::forbidden(&at("[]"), why));
            }
            (Some(seconds), None) if seconds < 1 => {
                errors.push(FieldError::invalid(&at("sinceSeconds"), seconds, "must be greater than 0"));
            }
            _ => {}
        }
        match self.stream.as_deref() {
            Some(_) if !split_streams => errors.push(FieldError::forbidden(&at("stream"), "may not be specified")),
            Some(stream) => {
                if !STREAMS.contains(&stream) {
                    errors.push(FieldError::not_supported(&at("stream"), stream, &STREAMS));
                }
                if stream != "All" && self.tail_lines.is_some() {
                    let why = "`tailLines` and specific `stream` are mutually exclusive for now";
                    errors.push(FieldError::forbidden(&at("[]"), why));
                }
            }
            None => {}
        }
        errors
    }

    /// Returns the query of the request to the kubelet.
    pub(super) fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for (set, name) in [(self.follow, "follow"), (self.previous, "previous"), (self.timestamps, "timestamps")] {
            if set {
                pairs.push((name, "true".to_owned()));
            }
        }
        for (number, name) in
            [(self.since_seconds, "sinceSeconds"), (self.tail_lines, "tailLines"), (self.limit_bytes, "limitBytes")]
        {
            if let Some(number) = number {
                pairs.push((name, number.to_string()));
            }
        }
        if let Some(time) = &self.since_time {
            pairs.push(("sinceTime", time.to_string()));
        }
        if let Some(stream) = &self.stream {
            pairs.push(("stream", stream.clone()));
        }
        encode(&pairs)
    }
}

const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

/// Go's zero time in the year 1, which is the value of an empty time.
const ZERO_TIME: i64 = -62_135_596_800;

fn integer(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        let why = int_error(&error);
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_log_options() {
        for (query, want) in [
            ("", Ok("")),
            ("follow=true&container=c&previous=false", Ok("?follow=true")),
            ("tailLines=0&limitBytes=1&sinceSeconds=5", Ok("?limitBytes=1&sinceSeconds=5&tailLines=0")),
            ("sinceTime=2026-01-02T03:04:05Z&timestamps=1", Ok("?sinceTime=2026-01-02T03%3A04%3A05Z&timestamps=true")),
            ("insecureSkipTLSVerifyBackend=true", Ok("")),
            ("tailLines=x", Err("strconv.ParseInt: parsing \"x\": invalid syntax")),
            ("tailLines=", Err("strconv.ParseInt: parsing \"\": invalid syntax")),
            ("sinceTime=x", Err("parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"")),
            (
                "tailLines=-1",
                Err("PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ),
            (
                "limitBytes=0&sinceSeconds=0",
                Err(
                    "PodLogOptions \"p\" is invalid: [limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]",
                ),
            ),
            (
                "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
                Err(
                    "PodLogOptions \"p\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
                ),
            ),
            ("stream=All", Err("PodLogOptions \"p\" is invalid: stream: Forbidden: may not be specified")),
        ] {
            let got = LogOptions::of(&Query::parse(query), "p", false).map(|options| options.query());
            assert_eq!(got.as_deref().map_err(Status::message), want, "{query}");
        }
    }

    #[test]
    fn validates_stream_option() {
        for (query, want) in [
            ("", Ok("?stream=All")),
            ("stream=Stdout", Ok("?stream=Stdout")),
            ("stream=All&tailLines=1", Ok("?stream=All&tailLines=1")),
            (
                "stream=Stderr&tailLines=1",
                Err(
                    "PodLogOptions \"p\" is invalid: []: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
                ),
            ),
            (
                "stream=x",
                Err(
                    "PodLogOptions \"p\" is invalid: stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\"",
                ),
            ),
        ] {
            let got = LogOptions::of(&Query::parse(query), "p", true).map(|options| options.query());
            assert_eq!(got.as_deref().map_err(Status::message), want, "{query}");
        }
    }
}
