//! A server's resources over a store in memory, with the admission and hooks of the program.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_admission::{Chain, Metrics, PluginOptions, ResourceLookup, all, is_default};
use binnacle_authz::{AlwaysAllow, Authorizer};
use binnacle_builtin::Releases;
use binnacle_meta::Status;
use binnacle_metrics::Registry;
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{
    Catalog, Context, DeleteOptions, DeleteOutcome, Installer, Resource, StorageOptions, UpdateOptions,
};
use binnacle_request::{CreatePermit, User};
use binnacle_schema::Value;
use binnacle_services::{ServiceConfig, service_hooks};
use binnacle_store::Store;
use binnacle_store_embedded::EmbeddedStore;

#[derive(Clone)]
pub struct Server {
    pub resources: Catalog,
    pub store: Arc<dyn Store>,
}

impl Server {
    /// Creates a server over a store of its own.
    pub fn new(services: &ServiceConfig) -> Self {
        Self::over(Arc::new(EmbeddedStore::ephemeral()), services)
    }

    /// Creates one of several servers over a store.
    pub fn over(store: Arc<dyn Store>, services: &ServiceConfig) -> Self {
        let resources = Catalog::new(binnacle_builtin::kinds(), Arc::default());
        let lookup = Arc::new(ResourceLookup::new(resources.clone()));
        let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let mut plugins = all(lookup, &authorizer, &PluginOptions::default(), &metrics.pod_security);
        plugins.retain(|plugin| is_default(plugin.name()));
        let admission = Chain::new(plugins, &metrics).unwrap();
        let services: Arc<dyn Hooks> = service_hooks(resources.clone(), services);
        let hooks = HashMap::from([(("", "Service"), services)]);
        let installer = Installer::new(StorageOptions::new(store.clone()), Arc::new(admission), hooks, 1 << 20);
        let releases = Releases::default();
        let served = binnacle_builtin::served(releases, |_, _| true);
        binnacle_builtin::install(&resources, &installer, served, releases);
        Self { resources, store }
    }

    pub fn resource(&self, path: &str) -> Arc<Resource> {
        let parts: Vec<&str> = path.split('/').collect();
        let found = match parts[..] {
            [plural] => self.resources.find("", "v1", plural),
            [group, version, plural] => self.resources.find(group, version, plural),
            _ => None,
        };
        found.unwrap_or_else(|| panic!("{path} is not served"))
    }

    pub async fn create(&self, path: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        self.create_as(&user(namespace, false), path, object).await
    }

    pub async fn create_as(&self, context: &Context, path: &str, mut object: Value) -> Result<Value, Status> {
        let resource = self.resource(path);
        object.make_object().insert("kind", resource.description.kind.clone());
        object.make_object().insert("apiVersion", resource.api_version());
        resource.set_defaults(&mut object);
        #[expect(clippy::disallowed_methods, reason = "what may be created is not what is tested")]
        let permit = CreatePermit::system();
        resource.create(context, &permit, object).await.map(|stored| stored.object)
    }

    pub async fn update(
        &self,
        path: &str,
        namespace: &str,
        name: &str,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Value, Status> {
        self.update_as(&user(namespace, false), path, name, change).await
    }

    pub async fn update_as(
        &self,
        context: &Context,
        path: &str,
        name: &str,
        mut change: impl FnMut(&mut Value) + Send,
    ) -> Result<Value, Status> {
        let resource = self.resource(path);
        let mut changed = |old: Option<&Value>| {
            let mut object = old.cloned().unwrap();
            change(&mut object);
            resource.set_defaults(&mut object);
            Ok(object.into())
        };
        let updated = resource.update(context, name, &UpdateOptions::default(), &mut changed).await;
        updated.map(|updated| updated.stored.object)
    }

    pub async fn delete(&self, path: &str, namespace: &str, name: &str) -> Result<DeleteOutcome, Status> {
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.resource(path).delete(&user(namespace, false), name, &options).await
    }

    pub async fn get(&self, path: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = self.resource(path).get_object(&user(namespace, false), name, Default::default()).await;
        found.map(|stored| stored.object)
    }

    pub async fn names(&self, path: &str) -> Vec<String> {
        let mut page = self.resource(path).list(&user("", false), &Default::default()).await.unwrap();
        let mut names = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            names.extend(chunk.iter().map(|entry| entry.name().to_owned()));
        }
        names
    }
}

pub fn user(namespace: &str, dry_run: bool) -> Context {
    Context::new(User::new("alice", &["system:masters"]), namespace.into(), dry_run)
}
