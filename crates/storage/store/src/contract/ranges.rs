//! Range reads.

use std::sync::Arc;

use bytes::Bytes;

use super::{bytes, delete, list, pairs, put, text};
use crate::{Count, RangeRequest, Revision, Store, prefix_end, prefix_range};

async fn keys(store: &dyn Store, range: std::ops::Range<Bytes>) -> Vec<String> {
    let request = RangeRequest { range, revision: None, limit: 0, count: Count::All };
    let response = store.range(request).await.expect("a range is answered");
    assert_eq!(response.count, response.kvs.len());
    assert!(!response.more);
    response.kvs.iter().map(|kv| text(&kv.key)).collect()
}

/// Keys are in byte order; a range includes its start and excludes its end.
pub async fn range_is_ordered_and_excludes_its_end(store: Arc<dyn Store>) {
    for key in ["/r/b", "/r/a/1", "/r/a", "/r/a0", "/r/c", "/s"] {
        put(&*store, key, key).await;
    }
    let cases: &[(&str, &str, &[&str])] = &[
        ("/r/", "/r0", &["/r/a", "/r/a/1", "/r/a0", "/r/b", "/r/c"]),
        ("/r/a", "/r/b", &["/r/a", "/r/a/1", "/r/a0"]),
        ("/r/a", "/r/a\0", &["/r/a"]),
        ("/r/b", "/r/b", &[]),
        ("/r/c", "/r/a", &[]),
        ("/r/bb", "/t", &["/r/c", "/s"]),
        ("/x", "/y", &[]),
    ];
    for (start, end, expected) in cases {
        assert_eq!(keys(&*store, bytes(start)..bytes(end)).await, *expected, "{start}..{end}");
    }
    delete(&*store, "/r/a/1").await;
    assert_eq!(keys(&*store, bytes("/r/a")..bytes("/r/b")).await, ["/r/a", "/r/a0"]);
}

/// `more` is true if keys were left out.
pub async fn limit_is_reported_by_more(store: Arc<dyn Store>) {
    for n in 0..10 {
        put(&*store, &format!("/r/{n}"), "x").await;
    }
    // limit, keys, more
    for (limit, expected, more) in [(0, 10, false), (1, 1, true), (9, 9, true), (10, 10, false), (11, 10, false)] {
        let response = list(&*store, "/r/", None, limit).await;
        assert_eq!((response.kvs.len(), response.more), (expected, more), "limit {limit}");
        let request = RangeRequest { range: prefix_range(b"/r/"), revision: None, limit, count: Count::Returned };
        let response = store.range(request).await.expect("a range is answered");
        assert_eq!((response.kvs.len(), response.more), (expected, more), "limit {limit}");
        assert!(response.count >= expected + usize::from(more), "limit {limit}: {}", response.count);
    }
    let request = RangeRequest { range: prefix_range(b"/r/"), revision: None, limit: 0, count: Count::Only };
    let response = store.range(request).await.expect("a count");
    assert_eq!((response.kvs.len(), response.count), (0, 10));
    let response = list(&*store, "/none/", None, 5).await;
    assert_eq!((response.kvs.len(), response.more, response.count), (0, false, 0));
}

/// `count` is the number of all keys, including those left out.
pub async fn count_includes_keys_beyond_limit(store: Arc<dyn Store>) {
    for n in 0..10 {
        put(&*store, &format!("/r/{n}"), "x").await;
    }
    for limit in [0, 1, 9, 10, 11] {
        let response = list(&*store, "/r/", None, limit).await;
        assert_eq!(response.count, 10, "limit {limit}");
    }
}

/// The pages of a list show one revision, regardless of concurrent writes.
pub async fn pages_show_one_revision_despite_writes(store: Arc<dyn Store>) {
    for n in 0..7 {
        put(&*store, &format!("/r/{n}"), "old").await;
    }
    let first = list(&*store, "/r/", None, 3).await;
    let revision = first.revision;
    let mut seen = pairs(&first.kvs);
    let mut last = first.kvs.last().expect("a page").key.clone();
    let mut more = first.more;
    put(&*store, "/r/5", "new").await;
    delete(&*store, "/r/6").await;
    put(&*store, "/r/9", "new").await;
    while more {
        let mut start = last.to_vec();
        start.push(0);
        let range = Bytes::from(start)..prefix_end(b"/r/");
        let request = RangeRequest { range, revision: Some(revision), limit: 3, count: Count::All };
        let page = store.range(request).await.expect("a page");
        assert_eq!(page.revision, Revision(revision.0 + 3), "the store's revision, not the one read at");
        seen.extend(pairs(&page.kvs));
        last = page.kvs.last().expect("a page").key.clone();
        more = page.more;
    }
    let expected: Vec<_> = (0..7).map(|n| (format!("/r/{n}"), "old".to_owned())).collect();
    assert_eq!(seen, expected);
}

/// The range of a prefix contains exactly the keys with the prefix.
pub async fn prefix_range_has_exactly_keys_with_prefix(store: Arc<dyn Store>) {
    for (prefix, end) in [(&b"/a/"[..], &b"/a0"[..]), (b"a\xff", b"b"), (b"a\xfe\xff\xff", b"a\xff")] {
        assert_eq!(&prefix_end(prefix)[..], end, "{prefix:?}");
    }
    for key in ["/pods", "/pods/a", "/pods/b/c", "/podsets/a"] {
        put(&*store, key, "x").await;
    }
    assert_eq!(keys(&*store, prefix_range(b"/pods/")).await, ["/pods/a", "/pods/b/c"]);
    assert_eq!(keys(&*store, prefix_range(b"/pods")).await.len(), 4);
    assert_eq!(keys(&*store, prefix_range(b"")).await.len(), 4, "the empty prefix is everything");
}
