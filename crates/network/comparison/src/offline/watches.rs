//! The first events of watches. Both servers get the same watch, which ends after some seconds; the events up to the
//! revision at its start are compared. Bookmarks are not: each server sends them at times of its own.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Options;
use crate::answer::{Answer, normal_headers};
use crate::case::Until;
use crate::difference::differences;
use crate::endpoint::{Endpoint, Outgoing, add_parameter};
use crate::explained::Rules;
use crate::normal;
use crate::pointer::lookup;
use crate::subject::Subject;
use crate::text::Texts;
use crate::verdict::{Stores, Verdict, compare, verdict, version_of};
use crate::watch::Watch;

/// The duration of a watch in seconds.
const SECONDS: u64 = 2;
/// The time after which a server that does not end the watch is not waited for.
const PATIENCE: Duration = Duration::from_secs(SECONDS + 10);
/// A list whose version is the current revision of a store.
const CURRENT: &str = "/api/v1/namespaces?limit=1";

/// The response to a watch.
enum Response {
    Events(HeaderMap, Vec<Value>),
    Refusal(Answer),
}

/// Watches on both servers at the same time, and compares the events.
pub(super) async fn exchange(options: &Options, subject: &Subject) -> Verdict<'static> {
    let [first, second] = &options.servers;
    match tokio::join!(watch(first, subject), watch(second, subject)) {
        (Ok(expected), Ok(got)) => compare_responses(options.stores, subject, expected, got),
        (Err(error), _) => Verdict::Failed(format!("{}: {error}", first.address())),
        (_, Err(error)) => Verdict::Failed(format!("{}: {error}", second.address())),
    }
}

async fn watch(server: &Endpoint, subject: &Subject) -> Result<Response, String> {
    let current = server.request(&Outgoing::empty("GET", CURRENT)).await?;
    let revision = version_of(&current).parse().map_err(|_| format!("GET {CURRENT}: {}", current.status))?;
    let opened = Watch::open(server, &with_timeout(subject)).await?;
    let mut watch = match opened {
        Ok(watch) => watch,
        Err(answer) => return Ok(Response::Refusal(answer)),
    };
    let mut events = watch.take(0, Some(Until::Close), Instant::now() + PATIENCE).await;
    if !watch.closed {
        return Err(format!("GET {}: the watch did not end", subject.outgoing.target));
    }
    events.retain(|event| event["type"] != "BOOKMARK" && version(event).is_none_or(|version| version <= revision));
    Ok(Response::Events(watch.headers.clone(), events))
}

/// Returns the request with a short timeout, unless its own timeout is invalid.
fn with_timeout(subject: &Subject) -> Outgoing {
    let mut outgoing = subject.outgoing.clone();
    if subject.parameter("timeoutSeconds").is_some_and(|seconds| seconds.parse::<i64>().is_err()) {
        return outgoing;
    }
    let (path, query) = outgoing.target.split_once('?').unwrap_or((&outgoing.target, ""));
    let others: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("timeoutSeconds=")).collect();
    let mut target = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
    add_parameter(&mut target, "timeoutSeconds", &SECONDS.to_string());
    outgoing.target = target;
    outgoing
}

/// Returns the version of an event's object; `None` for errors.
fn version(event: &Value) -> Option<u64> {
    lookup(event, "/object/metadata/resourceVersion")?.as_str()?.parse().ok()
}

fn compare_responses(stores: Stores, subject: &Subject, expected: Response, got: Response) -> Verdict<'static> {
    let rules = Rules::reviewed();
    let (expected, got) = match (expected, got) {
        (Response::Events(left, expected), Response::Events(right, got)) => ((left, expected), (right, got)),
        (expected, got) => return compare(subject, stores, rules, &answer(expected), &answer(got)),
    };
    match [&expected.1, &got.1].map(|events| events.iter().any(is_about_the_store)) {
        [true, true] => return Verdict::Equal,
        [false, false] => {}
        _ => return Verdict::Skew,
    }
    let normal = |(headers, events): (HeaderMap, Vec<Value>)| {
        let mut texts = if stores == Stores::Same { Texts::exact() } else { Texts::new(String::new()) };
        let headers = normal_headers(&[], &headers, &mut texts);
        json!({"status": 200, "headers": headers, "body": {"events": normal::body(&mut texts, &Value::from(events))}})
    };
    let [expected, got] = [normal(expected), normal(got)];
    let found = differences(&expected, &got);
    verdict(subject, rules, expected, got, found)
}

/// Returns true for an error of which the requested version or the store is the cause: the events after that version are
/// gone, and the message names the oldest one; or etcd does not report its progress reliably, as before 3.4.31.
fn is_about_the_store(event: &Value) -> bool {
    let message = lookup(event, "/object/message").and_then(Value::as_str).unwrap_or_default();
    event["type"] == "ERROR"
        && (lookup(event, "/object/code") == Some(&json!(410)) || message.contains("RequestWatchProgress is disabled"))
}

/// Returns a refusal, or the beginning of a watch without its events.
fn answer(response: Response) -> Answer {
    match response {
        Response::Refusal(answer) => answer,
        Response::Events(headers, _) => Answer { status: 200, headers, data: Bytes::new() },
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::{Response, compare_responses, with_timeout};
    use crate::answer::Answer;
    use crate::endpoint::Outgoing;
    use crate::subject::Subject;
    use crate::verdict::{Stores, Verdict};

    fn subject(query: &str) -> Subject {
        Subject::parse_replay(Outgoing::empty("GET", &format!("/api/v1/pods?{query}"))).unwrap()
    }

    #[test]
    fn watches_end_after_some_seconds() {
        for (query, want) in [
            ("watch=1", "watch=1&timeoutSeconds=2"),
            ("watch=1&timeoutSeconds=400&resourceVersion=7", "watch=1&resourceVersion=7&timeoutSeconds=2"),
            ("watch=1&timeoutSeconds=x", "watch=1&timeoutSeconds=x"),
        ] {
            assert_eq!(with_timeout(&subject(query)).target, format!("/api/v1/pods?{want}"));
        }
    }

    #[test]
    fn events_are_compared_in_order() {
        let event =
            |name: &str| json!({"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": "5"}}});
        let expired = json!({"type": "ERROR", "object": {"code": 410, "message": "too old"}});
        let events = |list: &[Value]| Response::Events(HeaderMap::new(), list.to_vec());
        let progress = json!({"type": "ERROR", "object": {"code": 500,
            "message": "the required storage feature RequestWatchProgress is disabled"}});
        let older = json!({"type": "ERROR", "object": {"code": 410, "message": "older"}});
        let refusal = |status| Response::Refusal(Answer { status, headers: HeaderMap::new(), data: Bytes::new() });
        for (expected, got, want) in [
            (events(&[event("a"), event("b")]), events(&[event("a"), event("b")]), "equal"),
            (events(&[event("a"), event("b")]), events(&[event("b"), event("a")]), "different"),
            (events(&[event("a")]), events(&[]), "different"),
            (events(&[event("a")]), events(std::slice::from_ref(&expired)), "skew"),
            (events(std::slice::from_ref(&older)), events(std::slice::from_ref(&expired)), "equal"),
            (events(&[progress]), events(&[event("a")]), "skew"),
            (events(&[]), refusal(403), "different"),
            (events(&[]), refusal(410), "skew"),
            (refusal(403), refusal(403), "equal"),
        ] {
            let got = match compare_responses(Stores::Same, &subject("watch=1"), expected, got) {
                Verdict::Equal => "equal",
                Verdict::Skew => "skew",
                Verdict::Different(_) => "different",
                other => panic!("{other:?}"),
            };
            assert_eq!(got, want);
        }
    }
}
