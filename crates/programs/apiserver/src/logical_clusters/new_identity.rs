//! A new identity for a fork: another UID of the namespace `kube-system`, by which programs recognize a cluster, and
//! none of the source's tokens, which are Secrets.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::Secret;
use binnacle_meta::Status;
use binnacle_registry::{decode_stored, store_failure};
use binnacle_schema::Value;
use binnacle_scheme::{MediaType, StoredKind, StoredType};
use binnacle_store::{Expect, KeyValue, Op, Pages, Revision, Store, Txn, prefix_range};
use bytes::Bytes;
use uuid::Uuid;

use crate::cluster_storage::{ClusterStorage, built_in_type};

/// The types of Secrets with tokens for the API of their cluster.
const TOKENS: [&str; 2] = ["bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token"];
/// The first bytes of objects that are stored as protobuf.
const PROTOBUF: &[u8] = b"k8s\0";

/// Gives a cluster that does not run a new identity.
pub(super) async fn renew(storage: &ClusterStorage) -> Result<(), Status> {
    let views = storage.views();
    let store_of = |prefix: &str| {
        let view = views.get(storage.store_index(prefix));
        view.ok_or_else(|| Status::internal(format!("no store has {prefix}")))
    };
    renew_namespace(&**store_of("namespaces/")?, format!("{}namespaces/kube-system", storage.root())).await?;
    delete_tokens(&**store_of("secrets/")?, &format!("{}secrets/", storage.root())).await
}

async fn renew_namespace(store: &dyn Store, key: String) -> Result<(), Status> {
    let (stored, _) = store.get(key.into(), None).await.map_err(store_failure)?;
    // A cluster that never ran has none, and will create its own.
    let Some(kv) = stored else { return Ok(()) };
    let namespace = type_of("namespaces")?;
    let mut object = decode_stored(&namespace, &kv.value).map_err(Status::internal)?;
    object.make_at(&["metadata"]).insert("uid", Uuid::new_v4().to_string());
    let op = Op::Put { value: encode(&namespace, &kv, &mut object), lease: None };
    store.txn(Txn { key: kv.key, expect: Expect::ModRevision(kv.mod_revision), op }).await.map_err(store_failure)?;
    Ok(())
}

async fn delete_tokens(store: &dyn Store, prefix: &str) -> Result<(), Status> {
    let secret = type_of("secrets")?;
    let revision = store.current_revision().await.map_err(store_failure)?;
    let mut pages = Pages::new(store, prefix_range(prefix.as_bytes()), Revision(revision.0));
    while let Some(page) = pages.next().await.map_err(store_failure)? {
        for kv in page {
            let object = decode_stored(&secret, &kv.value).map_err(Status::internal)?;
            if TOKENS.contains(&FieldRef::<Secret>::root(&object).at(Secret::TYPE).str()) {
                let txn = Txn { key: kv.key, expect: Expect::Anything, op: Op::Delete };
                store.txn(txn).await.map_err(store_failure)?;
            }
        }
    }
    Ok(())
}

fn type_of(plural: &str) -> Result<StoredType, Status> {
    built_in_type("", plural).ok_or_else(|| Status::internal(format!("{plural} are not stored")))
}

/// Returns the stored form of an object, in the encoding that it had.
fn encode(kind: &StoredType, before: &KeyValue, object: &mut Value) -> Bytes {
    kind.canonicalize(object);
    let media_type = if before.value.starts_with(PROTOBUF) { MediaType::Protobuf } else { MediaType::Json };
    let api_version = kind.storage.group_version_kind().api_version();
    kind.codec().write(&StoredKind::new(kind, &api_version), media_type, object).into()
}
