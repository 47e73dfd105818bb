//! The log of slow requests, with the times of their stages, in the format of Go's utiltrace at `--v=2` and above.

use std::fmt::Write;
use std::time::Duration;

use binnacle_meta::go_quote;
use binnacle_request::latency::Part;
use binnacle_request::{Facts, Record};
use http::HeaderValue;

use crate::traces::handler_name;

/// Requests with a shorter handling time are not logged.
const THRESHOLD: Duration = Duration::from_millis(500);
/// The target of events about slow requests, which klog logs at verbosity 2.
pub const SLOW_REQUESTS: &str = "binnacle_slow";
/// Stages before the handler, which do not count for the threshold.
const PRE_HANDLER_PARTS: [Part; 4] = [Part::Authentication, Part::Authorization, Part::Impersonation, Part::QueueWait];
/// The maximum length of a client's text in the log.
const MAX_TEXT: usize = 1024;

/// Logs a request that has ended, if it was slow.
pub(crate) fn log(record: &Record, facts: &Facts) {
    let handled =
        record.started().elapsed().saturating_sub(PRE_HANDLER_PARTS.into_iter().map(|part| record.latency(part)).sum());
    if handled >= THRESHOLD
        && tracing::enabled!(target: SLOW_REQUESTS, tracing::Level::INFO)
        && let Some(text) = trace_text(record, facts, handled)
    {
        tracing::info!(target: SLOW_REQUESTS, "{text}");
    }
}

/// Returns the lines for a request; `None` for long-running requests and those without a resource.
fn trace_text(record: &Record, facts: &Facts, handled: Duration) -> Option<String> {
    let info = facts.info.as_ref().filter(|info| info.is_resource_request && !info.is_long_running())?;
    let name = handler_name(&info.verb)?;
    let number: u32 = rand::random::<u32>() >> 1;
    let mut text = format!("Trace[{number}]: {name:?} ");
    let header = |value: &Option<HeaderValue>| {
        value.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
    };
    let client = facts.peer.map(|peer| peer.ip().to_string()).unwrap_or_default();
    let path = record.uri().split('?').next().unwrap_or_default();
    for (key, value) in [
        ("accept", header(&facts.accept).as_str()),
        ("audit-id", record.audit_id()),
        ("client", &client),
        ("api-group", &info.api_group),
        ("api-version", &info.api_version),
        ("name", &info.name),
        ("subresource", &info.subresource),
        ("namespace", &info.namespace),
        ("resource", &info.resource),
        ("scope", info.scope()),
        ("url", path),
        ("user-agent", &header(&facts.user_agent)),
        ("verb", record.method().as_str()),
    ] {
        let separator = if key == "verb" { ' ' } else { ',' };
        let _ = write!(text, "{key}:{}{separator}", single_line(value));
    }
    let began = jiff::Timestamp::try_from(record.received()).unwrap_or_default();
    let began = began.to_zoned(jiff::tz::TimeZone::system()).strftime("%d-%b-%Y %H:%M:%S%.3f");
    let _ = write!(text, "({began}) (total time: {}ms):", handled.as_millis());
    let mut measured = Duration::ZERO;
    for (part, took) in record.latencies().filter(|(part, _)| !PRE_HANDLER_PARTS.contains(part)) {
        measured += took;
        let _ = write!(text, "\nTrace[{number}]: ---{:?} {}ms", part.as_str(), took.as_millis());
    }
    let rest = handled.saturating_sub(measured).as_millis();
    let _ = write!(text, "\nTrace[{number}]: ---\"other\" {rest}ms\nTrace[{number}]: [{handled:?}] END");
    Some(text)
}

/// Returns a text on a single line with limited length.
fn single_line(text: &str) -> String {
    let short = &text[..text.floor_char_boundary(MAX_TEXT)];
    if short.chars().any(char::is_control) { go_quote(short) } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Query, RequestInfo};
    use http::Method;

    use super::*;

    fn trace_text_of(method: Method, url: &str) -> Option<String> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::parse(&method, path, &Query::parse(query), url).unwrap();
        let record = Record::open(method, url.into(), Some("id".into()), None);
        record.took(Part::Storage, Duration::from_millis(600));
        record.took(Part::QueueWait, Duration::from_millis(50));
        let facts = Facts {
            info: Some(info.into()),
            accept: Some(HeaderValue::from_static("application/json")),
            user_agent: Some(HeaderValue::from_static("kubectl/v1.36")),
            ..Facts::default()
        };
        trace_text(&record, &facts, Duration::from_millis(700))
    }

    #[test]
    fn lists_stages_of_a_request() {
        let text = trace_text_of(Method::POST, "/apis/apps/v1/namespaces/team/deployments?dryRun=All").unwrap();
        let (number, _) = text.strip_prefix("Trace[").unwrap().split_once(']').unwrap();
        let text = text.replace(&format!("Trace[{number}]: "), "");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with(
                "\"Create\" accept:application/json,audit-id:id,client:,api-group:apps,api-version:v1,name:,subresource:,\
                 namespace:team,resource:deployments,scope:resource,url:/apis/apps/v1/namespaces/team/deployments,\
                 user-agent:kubectl/v1.36,verb:POST ("
            ),
            "{text}"
        );
        assert!(lines[0].ends_with(") (total time: 700ms):"), "{text}");
        assert_eq!(lines[1..], ["---\"etcd\" 600ms", "---\"other\" 100ms", "[700ms] END"]);
    }

    #[test]
    fn ignores_long_running_requests() {
        for (method, url) in [
            (Method::GET, "/api/v1/pods?watch=1"),
            (Method::GET, "/api/v1/namespaces/a/pods/b/log"),
            (Method::POST, "/api/v1/namespaces/a/pods/b/exec"),
            (Method::GET, "/healthz"),
        ] {
            assert_eq!(trace_text_of(method, url), None, "{url}");
        }
    }

    #[test]
    fn quotes_and_truncates_client_text() {
        assert_eq!(single_line("a\nTrace[1]: b"), "\"a\\nTrace[1]: b\"");
        assert_eq!(single_line(&"é".repeat(1000)).len(), 1024);
    }
}
