//! Admission webhooks and policies in manifest files.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_admission_manifests::{
    Directory, LoadError, ManifestReloader, ManifestSet, ManifestType, Metrics, StoredTypes,
};
use binnacle_admission_policies::Policies;
use binnacle_admission_webhooks::{WebhookKind, Webhooks};
use binnacle_builtin::Releases;
use binnacle_features::Features;
use binnacle_metrics::Registry;
use binnacle_request::Shutdown;
use binnacle_scheme::ResourceDescription;
use tokio::task::JoinSet;

use super::{StartFailure, not_registered};

/// The manifest directories of admission plugins, loaded and watched.
pub(super) struct AdmissionManifests(Vec<ManifestReloader>);

impl AdmissionManifests {
    /// Loads all directories. The metrics are registered only if there are any.
    pub(super) fn begin(
        named: &[(&'static str, PathBuf)],
        features: &Arc<Features>,
        webhooks: &[Arc<Webhooks>],
        policies: &Arc<Policies>,
        server: &str,
        registry: &Registry,
    ) -> Result<Self, StartFailure> {
        if named.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let metrics = Metrics::register(registry, server).map_err(not_registered)?;
        let types = types(features);
        let begin = |directory: Directory| {
            let put = put_in_force(directory.manifest_type, webhooks, policies);
            ManifestReloader::begin(directory, types.clone(), metrics.clone(), put)
        };
        let watched: Result<Vec<ManifestReloader>, LoadError> = directories(named).map(begin).collect();
        Ok(Self(watched?))
    }

    /// Watches the directories; the tasks end with the shutdown signal.
    pub(super) fn start_reloading(self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        self.0.into_iter().for_each(|watched| watched.start_reloading(tasks, shutdown));
    }
}

/// Reads the directories without using their contents.
pub(super) fn check(named: &[(&'static str, PathBuf)], features: &Arc<Features>) -> Result<(), StartFailure> {
    if named.is_empty() {
        return Ok(());
    }
    let types = types(features);
    directories(named).try_for_each(|directory| directory.load(&types).map(drop))?;
    Ok(())
}

/// Returns the directories of the plugins that take manifests.
fn directories(named: &[(&'static str, PathBuf)]) -> impl Iterator<Item = Directory> {
    named.iter().filter_map(|(plugin, path)| {
        let manifest_type = ManifestType::ALL.into_iter().find(|manifest_type| manifest_type.plugin() == *plugin)?;
        Some(Directory { manifest_type, path: path.clone() })
    })
}

/// Returns the kinds of manifests, even if the group is not served.
fn types(features: &Arc<Features>) -> StoredTypes {
    let of_admission = |description: &&Arc<ResourceDescription>| {
        let is_of = |manifest_type: ManifestType| {
            manifest_type.kind() == description.kind || manifest_type.binding() == Some(&*description.kind)
        };
        description.group == "admissionregistration.k8s.io"
            && description.version == "v1"
            && ManifestType::ALL.into_iter().any(is_of)
    };
    let described = binnacle_resources::all().filter(of_admission);
    StoredTypes::new(
        described.filter_map(|one| binnacle_builtin::stored_type(one, Releases::default())),
        features.clone(),
    )
}

fn put_in_force(
    manifest_type: ManifestType,
    webhooks: &[Arc<Webhooks>],
    policies: &Arc<Policies>,
) -> impl Fn(&ManifestSet) + Send + Sync + 'static {
    let of = |kind: WebhookKind| webhooks.iter().find(|webhooks| webhooks.kind() == kind).cloned();
    let webhooks = match manifest_type {
        ManifestType::MutatingWebhooks => of(WebhookKind::Mutating),
        ManifestType::ValidatingWebhooks => of(WebhookKind::Validating),
        ManifestType::MutatingPolicies | ManifestType::ValidatingPolicies => None,
    };
    let policies = policies.clone();
    move |loaded| match manifest_type {
        ManifestType::MutatingWebhooks | ManifestType::ValidatingWebhooks => {
            webhooks.iter().for_each(|webhooks| webhooks.put_manifests(&loaded.objects));
        }
        ManifestType::MutatingPolicies => policies.put_mutating_manifests(&loaded.objects, &loaded.bindings),
        ManifestType::ValidatingPolicies => policies.put_validating_manifests(&loaded.objects, &loaded.bindings),
    }
}
