//! Backup and restore of single clusters, page by page, as subresources of their objects in the host:
//! `GET .../logicalclusters/NAME/backup` and `POST .../logicalclusters/NAME/restore`, for `binnacle cluster`.
//!
//! Keys are without the root of the stores, and values as the cluster sees them, so that a backup fits every host and
//! every encryption at rest. A cluster is restored while it is suspended and has no objects.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use binnacle_endpoints::failure_response;
use binnacle_meta::{GroupResource, Status};
use binnacle_pki::{CertifiedKey, ClusterKeys};
use binnacle_registry::{Catalog, store_failure};
use binnacle_request::{Body, BoxFuture, Interceptor, Preferences, Request, Response};
use binnacle_store::{
    Count, Expect, KeyValue, LeaseId, Op, PageSize, Pages, RangeRequest, Revision, Store, StoreError, Txn, prefix_range,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};

use super::LogicalClusters;
use super::credentials::Credentials;
use super::definition::{GROUP, PLURAL};
use super::slot::Slot;
use crate::cluster_storage::ClusterStorage;

/// The bounds of a page. The objects of a restore have at most twice these bytes, encoded.
const PAGE: PageSize = PageSize { objects: 2000, bytes: 2 << 20 };
const MAX_RESTORE_BODY: usize = 16 << 20;
/// The number of concurrent writes.
const CONCURRENT: usize = 64;

/// The handler of both subresources.
pub(crate) struct Backups {
    clusters: Arc<LogicalClusters>,
    catalog: Catalog,
}

/// A page of a backup.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BackupPage {
    /// The revision of the store that has the objects of this page.
    revision: u64,
    items: Vec<Item>,
    /// The parameter `continue` of the request for the next page; none in the last one.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    rest: Option<String>,
    /// Only in the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Keys>,
}

/// A part of a cluster to restore.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RestorePart {
    /// True for the first part: the cluster must be empty.
    #[serde(default)]
    first: bool,
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    keys: Option<Keys>,
    /// True for the last part: the history of the cluster begins with it.
    #[serde(default)]
    last: bool,
}

/// A stored object.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Item {
    /// The key without the root of the store.
    key: String,
    /// The value in base64.
    value: String,
    #[serde(default)]
    create_revision: u64,
    #[serde(default)]
    mod_revision: u64,
    /// The remaining seconds of its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_seconds: Option<u64>,
}

/// The keys of a cluster, as PEM.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Keys {
    authority: String,
    authority_key: String,
    service_account_key: String,
}

/// The position after a page.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    /// The index of the store.
    store: usize,
    revision: Revision,
    /// The first key of the next page.
    key: Bytes,
}

impl Interceptor for Backups {
    fn intercepts(&self, request: &Request) -> bool {
        let info = &request.info;
        info.is_resource_request
            && (&*info.api_group, &*info.resource) == (GROUP, PLURAL)
            && matches!(info.subresource.as_str(), "backup" | "restore")
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let preferences = Preferences::of_request(&request);
            match self.answer(request).await {
                Ok(document) => {
                    let mut response = Response::new(Body::from(document));
                    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    response
                }
                Err(status) => failure_response(&status, &preferences),
            }
        })
    }
}

impl Backups {
    pub(crate) fn new(clusters: Arc<LogicalClusters>, catalog: Catalog) -> Self {
        Self { clusters, catalog }
    }

    async fn answer(&self, mut request: Request) -> Result<Vec<u8>, Status> {
        let info = request.info.clone();
        let resource = GroupResource::new(GROUP, PLURAL);
        let slot = self.clusters.find(&info.name).ok_or_else(|| Status::not_found(&resource, &info.name))?;
        let storage = self.clusters.host().storage_of(slot.uid()).with_history().await.map_err(store_failure)?;
        match (info.subresource.as_str(), &request.method) {
            ("backup", &Method::GET) => {
                let page = page(&slot, &storage, request.query.get("continue")).await?;
                serde_json::to_vec(&page).map_err(Status::internal)
            }
            ("restore", &Method::POST) => {
                let body = request.read_body(MAX_RESTORE_BODY).await.map_err(|error| Status::from(&error))?;
                let part = serde_json::from_slice(&body).map_err(|error| Status::bad_request(error.to_string()))?;
                if !slot.is_suspended() {
                    let why = "a cluster can be restored only while it is suspended";
                    return Err(Status::conflict(&resource, &info.name, why));
                }
                self.restore(&slot, &storage, part).await?;
                Ok(b"{}".to_vec())
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn restore(&self, slot: &Slot, storage: &ClusterStorage, part: RestorePart) -> Result<(), Status> {
        let stores = storage.views();
        let root = storage.root();
        match (part.first, storage.is_restoring().await.map_err(store_failure)?) {
            // A client may send the first part again.
            (_, true) => {}
            (true, false) => {
                for store in &stores {
                    check_empty(&**store, root).await?;
                }
                storage.begin_restore().await.map_err(store_failure)?;
            }
            (false, false) => return Err(Status::bad_request("no restore of this cluster has begun")),
        }
        let writes = part.items.into_iter().map(|item| write(storage, &stores, root, item));
        stream::iter(writes).buffer_unordered(CONCURRENT).try_collect::<()>().await?;
        if let Some(keys) = part.keys {
            let keys = ClusterKeys {
                authority: CertifiedKey { certificate: keys.authority, key: keys.authority_key },
                service_account: keys.service_account_key,
            };
            Credentials::new(&self.catalog)?.replace(slot.name(), slot.uid(), &keys).await?;
        }
        if part.last {
            storage.end_restore().await.map_err(store_failure)?;
        }
        Ok(())
    }
}

/// Returns the page of a backup at a position, or the first one.
async fn page(slot: &Slot, storage: &ClusterStorage, after: Option<&str>) -> Result<BackupPage, Status> {
    let (stores, root) = (storage.views(), storage.root());
    let position = after.map(|text| Position::parse(text).ok_or_else(|| Status::bad_request("invalid continue token")));
    let Position { store: index, revision, key } = match position.transpose()? {
        Some(position) => position,
        None => Position::begin(&stores, 0, root).await?,
    };
    let Some(store) = stores.get(index) else { return Err(Status::bad_request("invalid continue token")) };
    let range = prefix_range(root.as_bytes());
    if key < range.start {
        return Err(Status::bad_request("invalid continue token"));
    }
    let (kvs, next) = read(&**store, key..range.end, revision).await.map_err(store_failure)?;
    let items = stream::iter(kvs).map(|kv| item(&**store, root, kv)).buffered(CONCURRENT);
    let items = items.try_filter_map(|item| std::future::ready(Ok(item))).try_collect().await?;
    let rest = match next {
        Some(key) => Some(Position { store: index, revision, key }),
        None if index + 1 < stores.len() => Some(Position::begin(&stores, index + 1, root).await?),
        None => None,
    };
    let keys = after.is_none().then(|| {
        let ClusterKeys { authority, service_account } = slot.keys().clone();
        Keys { authority: authority.certificate, authority_key: authority.key, service_account_key: service_account }
    });
    Ok(BackupPage { revision: revision.0, items, rest: rest.map(|rest| rest.text()), keys })
}

/// Reads keys up to the bounds of a page. Also returns the first key after it.
async fn read(
    store: &dyn Store,
    range: Range<Bytes>,
    revision: Revision,
) -> Result<(Vec<KeyValue>, Option<Bytes>), StoreError> {
    let mut pages = Pages::new(store, range, revision).sized(PAGE);
    let (mut kvs, mut bytes): (Vec<KeyValue>, _) = (Vec::new(), 0);
    while bytes < PAGE.bytes && kvs.len() < PAGE.objects {
        let Some(page) = pages.next().await? else { return Ok((kvs, None)) };
        bytes += page.iter().map(|kv| kv.key.len() + kv.value.len()).sum::<usize>();
        kvs.extend(page);
    }
    let next = kvs.last().map(|kv| Bytes::from([&*kv.key, b"\0"].concat()));
    Ok((kvs, next))
}

/// Returns the item of a key, or `None` if its lease has expired.
async fn item(store: &dyn Store, root: &str, kv: KeyValue) -> Result<Option<Item>, Status> {
    let lease_seconds = match kv.lease {
        None => None,
        Some(lease) => match store.lease_remaining(lease).await {
            Ok(left) => Some(left.as_secs().max(1)),
            Err(StoreError::LeaseNotFound) => return Ok(None),
            Err(error) => return Err(store_failure(error)),
        },
    };
    let key = kv.key.get(root.len()..).unwrap_or_default();
    Ok(Some(Item {
        key: String::from_utf8_lossy(key).into_owned(),
        value: STANDARD.encode(&kv.value),
        create_revision: kv.create_revision.0,
        mod_revision: kv.mod_revision.0,
        lease_seconds,
    }))
}

async fn check_empty(store: &dyn Store, root: &str) -> Result<(), Status> {
    let range = prefix_range(root.as_bytes());
    let request = RangeRequest { range, revision: None, limit: 1, count: Count::Returned };
    match store.range(request).await.map_err(store_failure)?.kvs.is_empty() {
        true => Ok(()),
        false => Err(Status::bad_request("the cluster has objects: restore a new one")),
    }
}

/// Writes an object, whatever the key had before: a client may send a part again.
async fn write(storage: &ClusterStorage, stores: &[Arc<dyn Store>], root: &str, item: Item) -> Result<(), Status> {
    let invalid = || Status::bad_request(format!("invalid value of the key {:?}", item.key));
    let value = STANDARD.decode(&item.value).map_err(|_| invalid())?.into();
    let store = stores.get(storage.store_index(&item.key)).ok_or_else(invalid)?;
    let lease = match item.lease_seconds {
        None => None,
        Some(seconds) => Some(grant(&**store, seconds).await?),
    };
    let key = Bytes::from(format!("{root}{}", item.key));
    let txn = Txn { key, expect: Expect::Anything, op: Op::Put { value, lease } };
    store.txn(txn).await.map(drop).map_err(store_failure)
}

async fn grant(store: &dyn Store, seconds: u64) -> Result<LeaseId, Status> {
    const MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
    store.grant_lease(seconds.clamp(1, MAX.as_secs())).await.map_err(store_failure)
}

// === impl Position ===

impl Position {
    /// Returns the beginning of a store as of now.
    async fn begin(stores: &[Arc<dyn Store>], store: usize, root: &str) -> Result<Self, Status> {
        let Some(opened) = stores.get(store) else { return Err(Status::internal("there is no store")) };
        let revision = opened.current_revision().await.map_err(store_failure)?;
        Ok(Self { store, revision, key: Bytes::copy_from_slice(root.as_bytes()) })
    }

    fn text(&self) -> String {
        format!("{}.{}.{}", self.store, self.revision.0, URL_SAFE_NO_PAD.encode(&self.key))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (store, revision) = (parts.next()?.parse().ok()?, Revision(parts.next()?.parse().ok()?));
        let key = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?.into();
        Some(Self { store, revision, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_their_text() {
        let position = Position { store: 1, revision: Revision(77), key: Bytes::from_static(b"/registry/a.b/c\0") };
        assert_eq!(Position::parse(&position.text()), Some(position));
        for text in ["", "1", "1.2", "a.2.YQ", "1.2.%", "-1.2.YQ"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
