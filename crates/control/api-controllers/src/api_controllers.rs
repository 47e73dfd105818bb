//! The controllers of one cluster as a whole.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_controllers::{Controller, Leadership, Queues, WriteAuditor};
use binnacle_registry::Catalog;
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_subresources::TokenSigner;
use binnacle_supervise::supervise;
use tokio::task::JoinSet;

use crate::context::ClusterContext;
use crate::leadership::LeadershipHandle;
use crate::remote_contents::RemoteContents;
use crate::selection::{ControllerName, Selection};
use crate::{
    account_tokens, cluster_roles, finished_jobs, garbage_collector, namespaces, protected_claims, protected_volumes,
    quotas, root_ca, service_accounts,
};

/// The settings of the controllers of one cluster.
pub struct Options {
    pub resources: Catalog,
    pub selection: Selection,
    pub queues: Queues,
    /// The beginning of the identity as the holder of the lease.
    pub hostname: String,
    /// The file with the authorities of the server's certificate, for clients to trust.
    pub authorities: PathBuf,
    /// The extension API servers, whose objects are in namespaces, too.
    pub remote: Option<Arc<dyn RemoteContents>>,
    /// Records the writes of the controllers; `None` without an audit policy.
    pub auditor: Option<Arc<WriteAuditor>>,
    /// The signer of tokens in Secrets; `None` if only another program has the key.
    pub token_signer: Option<Arc<dyn TokenSigner>>,
}

/// The selected controllers of one cluster.
pub struct ApiControllers(Options);

impl ApiControllers {
    /// Returns the controller that runs all selected ones, or `None` if none is selected.
    pub fn controller(options: Options) -> Option<Controller> {
        let selected = !options.selection.is_empty();
        let state = Arc::new(Self(options));
        // Before the roles of their accounts exist, hooks refuse some of their writes.
        selected.then(|| Controller::watch("start-api-controllers", &[], &state, run).after("rbac/bootstrap-roles"))
    }

    fn spawn(&self, tasks: &mut JoinSet<()>, context: &ClusterContext) {
        let mut spawn = |controller, name, run: fn(ClusterContext) -> BoxFuture<'static, ()>| {
            if self.0.selection.contains(controller) {
                let context = context.clone();
                tasks.spawn(supervise(name, move || run(context.clone())));
            }
        };
        spawn(ControllerName::Namespace, namespaces::NAME, |context| Box::pin(namespaces::run(context)));
        spawn(ControllerName::GarbageCollector, garbage_collector::NAME, |context| {
            Box::pin(garbage_collector::run(context))
        });
        spawn(ControllerName::ServiceAccount, service_accounts::NAME, |context| {
            Box::pin(service_accounts::run(context))
        });
        spawn(ControllerName::ClusterRoleAggregation, cluster_roles::NAME, |context| {
            Box::pin(cluster_roles::run(context))
        });
        spawn(ControllerName::TtlAfterFinished, finished_jobs::NAME, |context| Box::pin(finished_jobs::run(context)));
        spawn(ControllerName::ResourceQuota, quotas::NAME, |context| Box::pin(quotas::run(context)));
        spawn(ControllerName::RootCa, root_ca::NAME, |context| Box::pin(root_ca::run(context)));
        spawn(ControllerName::ClaimProtection, protected_claims::NAME, |context| {
            Box::pin(protected_claims::run(context))
        });
        spawn(ControllerName::VolumeProtection, protected_volumes::NAME, |context| {
            Box::pin(protected_volumes::run(context))
        });
        if self.0.selection.contains(ControllerName::ServiceAccountToken) {
            self.spawn_account_tokens(tasks, context);
        }
    }

    fn spawn_account_tokens(&self, tasks: &mut JoinSet<()>, context: &ClusterContext) {
        let Some(signer) = self.0.token_signer.clone() else {
            tracing::warn!(controller = account_tokens::NAME, "an external signer does not sign tokens in Secrets");
            return;
        };
        let context = context.clone();
        tasks.spawn(supervise(account_tokens::NAME, move || account_tokens::run(context.clone(), signer.clone())));
    }
}

fn run(
    controllers: Arc<ApiControllers>,
    report: tokio::sync::watch::Sender<bool>,
    shutdown: Shutdown,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // The hook only starts the controllers: their first work may need webhooks that this server must serve first.
        report.send_replace(true);
        let options = &controllers.0;
        let context = ClusterContext {
            resources: options.resources.clone(),
            leadership: LeadershipHandle::new(),
            queues: options.queues.clone(),
            authorities: options.authorities.clone(),
            remote: options.remote.clone(),
            auditor: options.auditor.clone(),
            shutdown: shutdown.clone(),
        };
        let mut tasks = JoinSet::new();
        controllers.spawn(&mut tasks, &context);
        let timing = Leadership::default();
        context.leadership.run(&options.resources, &options.hostname, timing, &shutdown).await;
        while tasks.join_next().await.is_some() {}
    })
}
