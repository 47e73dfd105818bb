//! The comparison of the events of two watches. Bookmarks are left out: each server sends them at times of its own.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answer::{Answer, normal_headers};
use crate::difference::differences;
use crate::endpoint::{Endpoint, Outgoing, add_parameter};
use crate::explained::Rules;
use crate::normal;
use crate::pointer::lookup;
use crate::subject::Subject;
use crate::text::Texts;
use crate::verdict::{Stores, Verdict, compare, verdict};
use crate::watch::{Watch, events_in};

/// The duration of a watch in seconds.
const SECONDS: u64 = 2;
/// The time after which a server that does not end the watch is not waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(SECONDS + 10);

/// The response to a watch.
pub(crate) enum Response {
    Events(HeaderMap, Vec<Value>),
    Refusal(Answer),
}

/// Opens a watch that was answered here on another server of the same store, and compares its events with the beginning of
/// the answer. `refusal` returns why the other server refused the credentials, if it did.
pub(crate) async fn exchange(
    server: &Endpoint,
    subject: &Subject,
    answered: Answer,
    refusal: impl Fn(&Answer) -> Option<String>,
) -> Verdict<'static> {
    let Answer { headers, data, .. } = answered;
    // Parsing and comparing would keep a worker thread from other requests.
    let read = tokio::task::spawn_blocking(move || {
        let mut events = events_in(&headers, &data);
        events.retain(|event| !is_bookmark(event));
        (headers, events)
    });
    let Ok((headers, got)) = read.await else { return Verdict::Failed("the events were not read".to_owned()) };
    let other = match Watch::open(server, &with_timeout(subject)).await {
        Ok(Ok(mut watch)) => Response::Events(watch.headers.clone(), take(&mut watch, got.len()).await),
        Ok(Err(answer)) => match refusal(&answer) {
            Some(error) => return Verdict::Failed(error),
            None => Response::Refusal(answer),
        },
        Err(error) => return Verdict::Failed(error),
    };
    let subject = subject.clone();
    let compared = tokio::task::spawn_blocking(move || {
        compare_responses(Stores::Same, &subject, other, Response::Events(headers, got))
    });
    compared.await.unwrap_or_else(|_| Verdict::Failed("the events were not compared".to_owned()))
}

/// Takes this many events that are no bookmarks, or fewer if the watch ends.
async fn take(watch: &mut Watch, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while events.len() < count {
        let taken = watch.take(1, None, deadline).await;
        if taken.is_empty() {
            break;
        }
        events.extend(taken.into_iter().filter(|event| !is_bookmark(event)));
    }
    events
}

pub(crate) fn is_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
}

/// Returns the request with a short timeout, unless its own timeout is invalid.
pub(crate) fn with_timeout(subject: &Subject) -> Outgoing {
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

/// Compares two responses; events in order.
pub(crate) fn compare_responses(
    stores: Stores,
    subject: &Subject,
    expected: Response,
    got: Response,
) -> Verdict<'static> {
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
