//! Watches of this engine beyond the contract: progress without events, and bounded buffers.

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Expect, Op, Revision, Store, Txn, TxnResponse, WatchMessage, prefix_range};
use binnacle_store_embedded::disk::MemoryDisk;
use binnacle_store_embedded::{EmbeddedStore, WatchOptions};
use bytes::Bytes;
use futures::StreamExt;

fn open(options: WatchOptions) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(MemoryDisk::default()), options).expect("an empty store opens")
}

async fn put(store: &EmbeddedStore, key: &str, value: Bytes) -> Revision {
    let txn = Txn {
        key: Bytes::copy_from_slice(key.as_bytes()),
        expect: Expect::Anything,
        op: Op::Put { value, lease: None },
    };
    match store.txn(txn).await.expect("a put") {
        TxnResponse::Done { revision, .. } => revision,
        TxnResponse::Unmet { .. } => panic!("anything was expected"),
    }
}

#[tokio::test]
async fn watch_without_events_gets_progress() {
    let store = open(WatchOptions { progress_interval: Duration::from_millis(1), ..WatchOptions::default() });
    let mut watch = store.watch(prefix_range(b"/quiet/"), Revision(1)).await.expect("a watch");
    for n in 0..3 {
        let written = put(&store, &format!("/busy/{n}"), Bytes::new()).await;
        let wait = async {
            loop {
                match watch.messages.next().await {
                    Some(Ok(WatchMessage::Progress(revision))) if revision >= written => break revision,
                    Some(Ok(WatchMessage::Progress(_))) => {}
                    other => panic!("nothing happened here: {other:?}"),
                }
            }
        };
        let progress = tokio::time::timeout(Duration::from_secs(30), wait).await.expect("progress is reported");
        assert_eq!(progress, written);
    }
}

/// Events that a watcher does not read are not buffered for it. Later it reads them from history.
#[tokio::test]
async fn bounds_buffers_of_slow_watchers() {
    const VALUE: usize = 64 << 10;
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 10 * VALUE)] {
        let store = open(WatchOptions { buffer_events: events, buffer_bytes: bytes, ..WatchOptions::default() });
        let mut watch = store.watch(prefix_range(b"/"), Revision(1)).await.expect("a watch");
        for n in 0..100 {
            put(&store, &format!("/{n}"), Bytes::from(vec![0; VALUE])).await;
        }
        let mut sizes = Vec::new();
        let mut seen = 0;
        while seen < 100 {
            if let Some(Ok(WatchMessage::Events(events))) = watch.messages.next().await {
                seen += events.len();
                sizes.push(events.len());
            }
        }
        assert_eq!(sizes[0], 10, "only the buffered events: {sizes:?}");
        assert!(sizes.iter().all(|size| size * VALUE <= 5 << 20), "history comes in pieces: {sizes:?}");
    }
}
