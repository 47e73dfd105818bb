//! Passes, watches and verification with stores in memory.

use std::sync::Arc;

use binnacle_cli::progress::Progress;
use binnacle_store::{Expect, Op, Revision, Store, Txn, unfinished_migration_key};
use binnacle_store_embedded::EmbeddedStore;
use bytes::Bytes;

use super::marker::Marker;
use super::watch_source::{Switch, WatchEnd};
use super::{Migration, prepare};
use crate::target::Target;
use crate::testing::{delete, done, put};

struct Stores {
    source: EmbeddedStore,
    target: Arc<dyn Store>,
}

impl Stores {
    fn new() -> Self {
        Self { source: EmbeddedStore::ephemeral(), target: Arc::new(EmbeddedStore::ephemeral()) }
    }

    /// Runs a whole migration. Returns its report.
    async fn run(&self, target_root: &str) -> Result<String, String> {
        let mut progress = Progress::new();
        let mut migration = self.begin(target_root, &mut progress).await?;
        match migration.fill(&self.source, &Switch::now(), None).await.map_err(|error| error.to_string())? {
            WatchEnd::CaughtUp(revision) => {
                migration.finish(&self.source, revision).await.map_err(|error| error.to_string())
            }
            WatchEnd::SourceGone(reason) => Err(reason),
        }
    }

    async fn begin<'a>(&self, root: &str, progress: &'a mut Progress) -> Result<Migration<'a>, String> {
        let marker = prepare(&*self.target, root, "the source", progress).await.map_err(|error| error.to_string())?;
        let target = Target::embedded(self.target.clone(), root).await.expect("a target");
        let source_root = "/registry/".to_owned();
        Ok(Migration { target, marker, source_root, target_root: root.to_owned(), progress })
    }

    async fn value(&self, key: &'static str) -> Option<String> {
        let (kv, _) = self.target.get(Bytes::from_static(key.as_bytes()), None).await.expect("a read");
        kv.map(|kv| String::from_utf8_lossy(&kv.value).into_owned())
    }
}

#[tokio::test]
async fn completes_an_interrupted_migration() {
    let stores = Stores::new();
    for n in 0..50 {
        put(&stores.source, &format!("/registry/a/{n}"), n.to_string()).await;
    }
    // An attempt that recorded revision 21 and wrote a little more, with the source as of that time.
    let reached = 21;
    let marker = Marker { source: "the source".to_owned(), reached };
    let op = Op::Put { value: marker.text(), lease: None };
    let key = unfinished_migration_key("/registry/");
    stores.target.txn(Txn { key, expect: Expect::Anything, op }).await.expect("a marker");
    for n in 0..60 {
        put(&*stores.target, "/elsewhere", n.to_string()).await;
    }
    for n in 0..22 {
        put(&*stores.target, &format!("/registry/a/{n}"), n.to_string()).await;
    }
    delete(&stores.source, "/registry/a/3").await;
    put(&stores.source, "/registry/a/4", "new").await;
    let report = stores.run("/registry/").await.expect("it is finished");
    assert!(report.contains("49 objects"), "{report}");
    assert_eq!(stores.value("/registry/a/3").await, None);
    assert_eq!(stores.value("/registry/a/4").await.as_deref(), Some("new"));
    let marker = Marker::read(&*stores.target, "/registry/").await.expect("a read");
    assert_eq!(marker, None);
    let begins = stores.target.compacted_revision().await.expect("a revision");
    assert!(begins > stores.source.current_revision().await.expect("a revision"));
    let again = stores.run("/registry/").await.expect_err("it is not empty");
    assert!(again.contains("the target is not empty: it has 49 keys"), "{again}");
}

#[tokio::test]
async fn rejects_target_of_another_source() {
    let stores = Stores::new();
    put(&stores.source, "/registry/a", "1").await;
    let marker = Marker { source: "another".to_owned(), reached: 5 };
    let op = Op::Put { value: marker.text(), lease: None };
    done(&*stores.target, "binnacle_migration/registry/", op).await;
    let refused = stores.run("/registry/").await.expect_err("it is refused");
    assert!(refused.contains("from another source, the another"), "{refused}");
}

#[tokio::test]
async fn moves_unencrypted_keys_to_another_prefix() {
    let stores = Stores::new();
    put(&stores.source, "/registry/pods/a/b", "1").await;
    put(&stores.source, "/other", "2").await;
    stores.run("/k/").await.expect("it is finished");
    assert_eq!(stores.value("/k/pods/a/b").await.as_deref(), Some("1"));
    assert_eq!(stores.value("/other").await, None);
    let stores = Stores::new();
    put(&stores.source, "/registry/secrets/a/b", "k8s:enc:aesgcm:v1:key:x").await;
    let refused = stores.run("/k/").await.expect_err("it is refused");
    assert!(refused.contains("cannot be moved to another prefix"), "{refused}");
    assert!(Stores { target: Arc::new(EmbeddedStore::ephemeral()), ..stores }.run("/registry/").await.is_ok());
}

#[tokio::test]
async fn verification_reports_each_difference() {
    // A change to the target outside of the migration, and the error.
    let cases: [(&str, Option<&str>, &str); 3] = [
        ("/registry/a/1", Some("tampered"), "/registry/a/1 has another value"),
        ("/registry/a/1", None, "/registry/a/1 is missing"),
        ("/registry/a/7", Some("x"), "/registry/a/7 is not in the source"),
    ];
    for (key, value, want) in cases {
        let stores = Stores::new();
        for n in 0..5 {
            put(&stores.source, &format!("/registry/a/{n}"), n.to_string()).await;
        }
        let mut progress = Progress::new();
        let mut migration = stores.begin("/registry/", &mut progress).await.expect("it begins");
        let ended = migration.fill(&stores.source, &Switch::now(), None).await.expect("it is filled");
        assert!(matches!(ended, WatchEnd::CaughtUp(Revision(6))));
        match value {
            Some(value) => put(&*stores.target, key, value).await,
            None => delete(&*stores.target, key).await,
        };
        let refused = migration.finish(&stores.source, Revision(6)).await.expect_err("it is found").to_string();
        assert!(refused.contains(want), "{refused}");
    }
    // The same values in another order, and a source with further writes.
    let stores = Stores::new();
    for n in 0..5 {
        put(&stores.source, &format!("/registry/a/{n}"), n.to_string()).await;
    }
    let mut progress = Progress::new();
    let mut migration = stores.begin("/registry/", &mut progress).await.expect("it begins");
    migration.fill(&stores.source, &Switch::now(), None).await.expect("it is filled");
    put(&*stores.target, "/registry/a/2", "2").await;
    let refused = migration.finish(&stores.source, Revision(6)).await.expect_err("it is found").to_string();
    assert!(refused.contains("changed places"), "{refused}");
    for n in 3..5 {
        put(&*stores.target, &format!("/registry/a/{n}"), n.to_string()).await;
    }
    let refused = migration.finish(&stores.source, Revision(3)).await.expect_err("it is found").to_string();
    assert!(refused.contains("is still being written to (/registry/a/2)"), "{refused}");
    migration.finish(&stores.source, Revision(6)).await.expect("it is finished");
}

#[tokio::test]
async fn compares_keys_again_after_compaction() {
    let stores = Stores::new();
    for n in 0..20 {
        put(&stores.source, &format!("/registry/a/{}", n % 6), n.to_string()).await;
    }
    let mut progress = Progress::new();
    let mut migration = stores.begin("/registry/", &mut progress).await.expect("it begins");
    let Ok(revision) = migration.pass(&stores.source).await else { panic!("the pass failed") };
    delete(&stores.source, "/registry/a/0").await;
    let last = put(&stores.source, "/registry/a/1", "last").await;
    put(&stores.source, "/registry/a/2", "later").await;
    stores.source.compact(Revision(last.0 + 1)).await.expect("a compaction");
    let ended = migration.watch_source(&stores.source, revision, &Switch::now(), None).await.expect("it is told");
    assert!(ended.is_none(), "the watch cannot begin there");
    let ended = migration.fill(&stores.source, &Switch::now(), None).await.expect("it is filled");
    let WatchEnd::CaughtUp(revision) = ended else { panic!("the source is there") };
    migration.finish(&stores.source, revision).await.expect("it is finished");
    assert_eq!(stores.value("/registry/a/0").await, None);
    assert_eq!(stores.value("/registry/a/1").await.as_deref(), Some("last"));
}
