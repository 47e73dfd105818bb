//! Tests of list: selectors, pages, versions.

use std::any::Any;
use std::sync::Arc;

use binnacle_meta::{FieldSelector, LabelSelector};
use binnacle_registry::{Context, ListOptions, Match};
use binnacle_request::latency::working_for;
use binnacle_request::{BoxFuture, Record, RequestSeat, User, WaitError};
use binnacle_watchcache::BLOCK_TIMEOUT;
use http::Method;

use crate::support::{Cluster, context};

const CONFIG_MAPS: &str = "/v1/configmaps";

/// Returns the names of a page, its token, and the number of objects after it.
async fn page(
    cluster: &Cluster,
    options: &ListOptions,
) -> Result<(Vec<String>, Option<String>, Option<usize>), String> {
    page_in(cluster, &context(), options).await
}

/// Returns a page of the context's namespace.
async fn page_in(
    cluster: &Cluster,
    context: &Context,
    options: &ListOptions,
) -> Result<(Vec<String>, Option<String>, Option<usize>), String> {
    let page = cluster.resource(CONFIG_MAPS).list(context, options).await;
    let mut page = page.map_err(|status| format!("{} {}", status.code(), status.message()))?;
    let mut names = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        names.extend(chunk.iter().map(|entry| entry.name().to_owned()));
    }
    Ok((names, page.continue_token.clone(), page.remaining))
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new();
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "green")] {
        let manifest = format!("metadata: {{name: {name}, labels: {{color: {color}}}}}");
        cluster.create(&context(), CONFIG_MAPS, &manifest).await.unwrap();
    }
    cluster
}

#[tokio::test]
async fn selects_by_labels_and_fields() {
    let cluster = cluster().await;
    for (labels, fields, want) in [
        ("", "", "a b c d"),
        ("color=red", "", "a c"),
        ("color!=red", "", "b d"),
        ("color in (blue, green)", "", "b d"),
        ("!color", "", ""),
        ("color", "metadata.name!=b", "a c d"),
        ("", "metadata.name=b", "b"),
        ("color=red", "metadata.name=b", ""),
        ("", "metadata.namespace=default", "a b c d"),
    ] {
        let options = ListOptions {
            labels: LabelSelector::parse(labels).unwrap(),
            fields: FieldSelector::parse(fields).unwrap(),
            ..ListOptions::default()
        };
        let (names, token, _) = page(&cluster, &options).await.unwrap();
        assert_eq!((names.join(" ").as_str(), token), (want, None), "{labels} {fields}");
    }
}

#[tokio::test]
async fn pages_show_one_snapshot() {
    let cluster = cluster().await;
    for limit in 1..6 {
        let (mut all, mut options) = (Vec::new(), ListOptions { limit, ..ListOptions::default() });
        loop {
            let (names, token, remaining) = page(&cluster, &options).await.unwrap();
            assert!(names.len() <= limit, "{names:?}");
            all.extend(names);
            assert_eq!(remaining.unwrap_or(0), 4 - all.len(), "{limit}");
            // Created while the pages are read, so it is not in them.
            let late = format!("metadata: {{name: z{limit}-{}}}", all.len());
            cluster.create(&context(), CONFIG_MAPS, &late).await.unwrap();
            let resource = cluster.resource(CONFIG_MAPS);
            resource.delete(&context(), &format!("z{limit}-{}", all.len()), &Default::default()).await.unwrap();
            match token {
                Some(token) => options.continue_token = Some(token),
                None => break,
            }
        }
        assert_eq!(all, ["a", "b", "c", "d"], "{limit}");
    }
}

/// A field selector that requires a namespace narrows the list, so that its last page has no token. The number of
/// remaining objects is only known without selectors.
#[tokio::test]
async fn required_namespace_ends_the_pages() {
    let cluster = cluster().await;
    let of = |namespace: &str| Context::new(User::new("somebody", &["system:authenticated"]), namespace.into(), false);
    let mut revision = 0;
    for namespace in ["a", "other"] {
        let created = cluster.create(&of(namespace), CONFIG_MAPS, "metadata: {name: elsewhere}").await.unwrap();
        revision = created.str_at(&["metadata", "resourceVersion"]).parse().unwrap();
    }
    let fields = FieldSelector::parse("metadata.namespace=default").unwrap();
    for (namespace, version) in [("", Match::Consistent), ("default", Match::Consistent), ("", Match::Exact(revision))]
    {
        let context = of(namespace);
        let mut options = ListOptions { fields: fields.clone(), limit: 2, version, ..ListOptions::default() };
        for (want, is_last) in [("a b", false), ("c d", true)] {
            let (names, token, remaining) = page_in(&cluster, &context, &options).await.unwrap();
            assert_eq!((names.join(" ").as_str(), token.is_none(), remaining), (want, is_last, None), "{namespace}");
            options.continue_token = token;
        }
    }
}

#[tokio::test]
async fn rejects_bad_token_and_lists_at_version() {
    let cluster = cluster().await;
    let token =
        |token: &str| ListOptions { limit: 2, continue_token: Some(token.to_owned()), ..ListOptions::default() };
    let version = |version| ListOptions { version, ..ListOptions::default() };
    for (about, options, want) in [
        ("an invalid token", token("nonsense"), "400 invalid continue token: continue key is not valid: "),
        ("the newest version", version(Match::Consistent), "a b c d"),
        ("any recent version", version(Match::NotOlderThan(1)), "a b c d"),
    ] {
        match page(&cluster, &options).await {
            Ok((names, ..)) => assert_eq!(names.join(" "), want, "{about}"),
            Err(failure) => assert!(failure.starts_with(want), "{about}: {failure}"),
        }
    }
}

/// A seat of a caller that has too many waiting requests.
struct CrowdedSeat;

impl RequestSeat for CrowdedSeat {
    fn pause(&self) -> Result<Option<Box<dyn Any + Send>>, WaitError> {
        Err(WaitError::Crowded)
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), WaitError>> {
        Box::pin(async { Ok(()) })
    }

    fn give_back(&self) {}

    fn give_back_later(self: Arc<Self>) -> Result<(), WaitError> {
        Err(WaitError::Crowded)
    }
}

/// Such a caller immediately gets the response that others get after a wait.
#[tokio::test(start_paused = true)]
async fn future_version_times_out() {
    let cluster = cluster().await;
    let resource = cluster.resource(CONFIG_MAPS);
    let future = 1000;
    for (is_crowded, waits) in [(false, true), (true, false)] {
        for version in [Match::NotOlderThan(future), Match::Exact(future)] {
            let record = Record::open(Method::GET, "/".into(), None, None);
            if is_crowded {
                record.seat_with(Arc::new(CrowdedSeat));
            }
            let started = tokio::time::Instant::now();
            let options = ListOptions { version, ..ListOptions::default() };
            let listed = working_for(&record, page(&cluster, &options)).await;
            let got = working_for(&record, resource.get(&context(), "a", version)).await.err().unwrap();
            for message in [listed.unwrap_err(), format!("{} {}", got.code(), got.message())] {
                assert!(message.starts_with("504 Timeout: Too large resource version: 1000, current: "), "{message}");
            }
            // A list of exactly a version does not wait for it.
            let waiting = if matches!(version, Match::Exact(_)) { 1 } else { 2 };
            assert_eq!(started.elapsed() >= waiting * BLOCK_TIMEOUT, waits, "{version:?}");
            assert!(started.elapsed() < (waiting + 1) * BLOCK_TIMEOUT, "{version:?}");
        }
    }
}
