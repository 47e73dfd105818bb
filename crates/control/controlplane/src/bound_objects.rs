//! The objects that tokens depend on, read from the watch caches.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_authn::service_account::{BoundKind, BoundObjects, LegacySecret, ObjectState};
use binnacle_authn::{AuthnError, BootstrapSecret, BootstrapSecrets, RecentCache};
use binnacle_meta::{Status, Time};
use binnacle_patch::apply::track_update;
use binnacle_registry::{Catalog, Context, MANAGER, Match, Resource, UpdateOptions, object};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_store::Revision;
use parking_lot::Mutex;

/// The maximum number of objects whose state is cached, so that they need not be decoded for each request.
const MAX_CACHED_STATES: usize = 16384;
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The objects that tokens depend on, from the resources of this server.
pub struct CachedObjects {
    resources: Catalog,
    /// The states of objects by revision, at which they never change.
    states: Mutex<RecentCache<(BoundKind, Revision), Arc<ObjectState>>>,
}

impl CachedObjects {
    /// Creates a reader of the watch caches of these resources.
    pub fn new(resources: Catalog) -> Self {
        Self { resources, states: Mutex::new(RecentCache::new(MAX_CACHED_STATES)) }
    }

    fn resource(&self, kind: BoundKind) -> Result<Arc<Resource>, Status> {
        let plural = match kind {
            BoundKind::ServiceAccount => "serviceaccounts",
            BoundKind::Pod => "pods",
            BoundKind::Secret => "secrets",
            BoundKind::Node => "nodes",
        };
        self.resources.require("", "v1", plural)
    }

    async fn find(
        &self,
        kind: BoundKind,
        namespace: &str,
        name: &str,
        consistent: bool,
    ) -> Result<Option<Arc<ObjectState>>, Status> {
        let resource = self.resource(kind)?;
        let freshness = if consistent { Match::Consistent } else { Match::Any };
        let found = resource.find(&Context::internal(namespace), name, freshness).await?;
        let Some(entry) = found else { return Ok(None) };
        let key = (kind, entry.revision());
        if let Some(known) = self.states.lock().get(&key) {
            return Ok(Some(known.clone()));
        }
        let object = resource.collection.decode_entry(&entry)?;
        let deleted = Time::parse(object.str_at(&["metadata", "deletionTimestamp"])).ok();
        let state = ObjectState { uid: object::uid(&object).into(), deleted: deleted.map(|at| at.unix_seconds()) };
        let state = Arc::new(state);
        self.states.lock().insert(key, state.clone());
        Ok(Some(state))
    }

    async fn read_legacy_secret(&self, namespace: &str, name: &str) -> Result<Option<LegacySecret>, Status> {
        let secrets = self.resource(BoundKind::Secret)?;
        let context = Context::internal(namespace);
        let found = match secrets.find_object(&context, name, Match::Any).await? {
            Some(found) => Some(found),
            None => secrets.find_object(&context, name, Match::Consistent).await?,
        };
        Ok(found.map(|secret| {
            let label = |key: &str| secret.str_at(&["metadata", "labels", key]).into();
            LegacySecret {
                uid: object::uid(&secret).into(),
                deleted: object::is_deleting(&secret),
                token: BASE64_STANDARD.decode(secret.str_at(&["data", "token"])).unwrap_or_default(),
                invalid_since: label(INVALID_SINCE),
                last_used: label(LAST_USED),
            }
        }))
    }

    async fn set_last_used(&self, namespace: &str, name: &str, uid: &str, day: &str) -> Result<(), Status> {
        let secrets = self.resource(BoundKind::Secret)?;
        let context = Context::internal(namespace);
        let options = UpdateOptions { uid: Some(uid.into()), ..UpdateOptions::default() };
        let mut change = |old: Option<&Value>| {
            let mut secret = old.cloned().ok_or_else(|| Status::not_found(&secrets.group_resource(), name))?;
            secret.make_at(&["metadata", "labels"]).insert(LAST_USED, day);
            track_update(&secrets.update_by(&context, MANAGER, ""), old, &mut secret);
            Ok(secret.into())
        };
        secrets.update(&context, name, &options, &mut change).await.map(drop)
    }
}

impl BoundObjects for CachedObjects {
    fn state<'a>(
        &'a self,
        kind: BoundKind,
        namespace: &'a str,
        name: &'a str,
        consistent: bool,
    ) -> BoxFuture<'a, Result<Option<Arc<ObjectState>>, AuthnError>> {
        Box::pin(async move { self.find(kind, namespace, name, consistent).await.map_err(failure) })
    }

    fn legacy_secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<LegacySecret>, AuthnError>> {
        Box::pin(async move { self.read_legacy_secret(namespace, name).await.map_err(failure) })
    }

    fn owns_secret<'a>(&'a self, namespace: &'a str, account: &'a str, secret: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Ok(accounts) = self.resource(BoundKind::ServiceAccount) else { return false };
            let found = accounts.get_object(&Context::internal(namespace), account, Match::Any).await;
            found.is_ok_and(|stored| {
                stored.object.list_at(&["secrets"]).iter().any(|reference| reference.str_at(&["name"]) == secret)
            })
        })
    }

    fn note_use<'a>(&'a self, namespace: &'a str, secret: &'a str, uid: &'a str, day: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.resources.features().read_only {
                return;
            }
            if let Err(status) = self.set_last_used(namespace, secret, uid, day).await {
                let error = status.message();
                tracing::error!(
                    "Failed to label legacy service account token {namespace}/{secret} with last-used date, err: {error}"
                );
            }
        })
    }
}

/// The namespace of bootstrap tokens.
const SYSTEM: &str = "kube-system";

impl BootstrapSecrets for CachedObjects {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<BootstrapSecret>, AuthnError>> {
        Box::pin(async move {
            let secrets = self.resource(BoundKind::Secret).map_err(failure)?;
            let found = secrets.find_object(&Context::internal(SYSTEM), name, Match::Any).await.map_err(failure)?;
            Ok(found.map(|secret| {
                let data = |key: &str| {
                    let bytes = BASE64_STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
                    String::from_utf8(bytes).unwrap_or_default().into()
                };
                BootstrapSecret {
                    kind: secret.str_at(&["type"]).into(),
                    deleted: object::is_deleting(&secret),
                    id: data("token-id"),
                    secret: data("token-secret"),
                    expiration: data("expiration"),
                    usage_authentication: data("usage-bootstrap-authentication"),
                    extra_groups: data("auth-extra-groups"),
                }
            }))
        })
    }
}

fn failure(status: Status) -> AuthnError {
    AuthnError(status.message().to_owned())
}
