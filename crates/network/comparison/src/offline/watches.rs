//! Watches in a replay. Both servers get the same watch, which ends after some seconds; the events up to the revision at
//! its start are compared.

use serde_json::Value;
use tokio::time::Instant;

use super::Options;
use crate::case::Until;
use crate::endpoint::{Endpoint, Outgoing};
use crate::pointer::lookup;
use crate::subject::Subject;
use crate::verdict::{Verdict, version_of};
use crate::watch::Watch;
use crate::watched::{self, PATIENCE, Response};

/// A list whose version is the current revision of a store.
const CURRENT: &str = "/api/v1/namespaces?limit=1";

/// Watches on both servers at the same time, and compares the events.
pub(super) async fn exchange(options: &Options, subject: &Subject) -> Verdict<'static> {
    let [first, second] = &options.servers;
    match tokio::join!(watch(first, subject), watch(second, subject)) {
        (Ok(expected), Ok(got)) => watched::compare_responses(options.stores, subject, expected, got),
        (Err(error), _) => Verdict::Failed(format!("{}: {error}", first.address())),
        (_, Err(error)) => Verdict::Failed(format!("{}: {error}", second.address())),
    }
}

async fn watch(server: &Endpoint, subject: &Subject) -> Result<Response, String> {
    let current = server.request(&Outgoing::empty("GET", CURRENT)).await?;
    let revision = version_of(&current).parse().map_err(|_| format!("GET {CURRENT}: {}", current.status))?;
    let opened = Watch::open(server, &watched::with_timeout(subject)).await?;
    let mut watch = match opened {
        Ok(watch) => watch,
        Err(answer) => return Ok(Response::Refusal(answer)),
    };
    let mut events = watch.take(0, Some(Until::Close), Instant::now() + PATIENCE).await;
    if !watch.closed {
        return Err(format!("GET {}: the watch did not end", subject.outgoing.target));
    }
    events.retain(|event| !watched::is_bookmark(event) && version(event).is_none_or(|version| version <= revision));
    Ok(Response::Events(watch.headers.clone(), events))
}

/// Returns the version of an event's object; `None` for errors.
fn version(event: &Value) -> Option<u64> {
    lookup(event, "/object/metadata/resourceVersion")?.as_str()?.parse().ok()
}
