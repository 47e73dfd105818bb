//! The admission chain: the enabled plugins in the order of calls.

use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::Status;
use binnacle_registry::RequestNotes;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Admission, Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::metrics::{MetricKey, Metrics, PluginMetrics, StepMetrics};
use crate::plugin::{Plugin, Request, Stage};
use crate::reinvocation::Reinvocation;

/// All plugins of kube-apiserver in the order of calls. Plugins of other crates are sorted by their names here.
pub const ORDER: &[&str] = &[
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
];

/// The plugins of [`ORDER`] that are disabled by default. Unlike in kube-apiserver, NodeRestriction is enabled: without
/// it the node authorizer, which is enabled by default, hardly restricts kubelets.
const OFF_BY_DEFAULT: &[&str] = &[
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "OwnerReferencesPermissionEnforcement",
    "DenyServiceExternalIPs",
    "AlwaysDeny",
];

/// Returns true if a plugin of [`ORDER`] is enabled by default.
pub fn is_default(name: &str) -> bool {
    !OFF_BY_DEFAULT.contains(&name)
}

/// The error for a plugin that is not in [`ORDER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlugin(pub &'static str);

impl std::fmt::Display for UnknownPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "admission plugin {:?} is unknown", self.0)
    }
}

impl std::error::Error for UnknownPlugin {}

/// The plugins of a server in the order of calls.
pub struct Chain {
    plugins: Vec<MeasuredPlugin>,
    steps: StepMetrics,
}

struct MeasuredPlugin {
    plugin: Arc<dyn Plugin>,
    metrics: PluginMetrics,
}

/// Measures the calls of plugins and the whole step.
struct Stopwatch<'a> {
    steps: &'a StepMetrics,
    stage: Stage,
    operation: Operation,
    began: Instant,
    last: Instant,
}

impl Chain {
    /// Creates a chain of the plugins, sorted by [`ORDER`].
    pub fn new(plugins: Vec<Arc<dyn Plugin>>, metrics: &Metrics) -> Result<Self, UnknownPlugin> {
        let position = |plugin: &Arc<dyn Plugin>| {
            let name = plugin.name();
            ORDER.iter().position(|known| *known == name).ok_or(UnknownPlugin(name))
        };
        let mut positioned: Vec<_> =
            plugins.into_iter().map(|plugin| Ok((position(&plugin)?, plugin))).collect::<Result<_, _>>()?;
        positioned.sort_by_key(|(position, _)| *position);
        let measured =
            |(_, plugin): (_, Arc<dyn Plugin>)| MeasuredPlugin { metrics: metrics.of_plugin(plugin.name()), plugin };
        Ok(Self { plugins: positioned.into_iter().map(measured).collect(), steps: metrics.of_steps() })
    }

    /// Iterates over the names of the plugins in the order of calls.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|measured| measured.plugin.name())
    }

    /// Iterates over the plugins that handle a request, and counts the others as skipped.
    fn handling<'a>(
        &'a self,
        stage: Stage,
        attributes: &'a Attributes,
    ) -> impl Iterator<Item = &'a MeasuredPlugin> + Send {
        self.plugins.iter().filter(move |measured| {
            let handles = measured.plugin.handles(stage, attributes);
            if !handles {
                measured.metrics.count_skipped(stage, attributes.operation);
            }
            handles
        })
    }

    fn stopwatch(&self, stage: Stage, attributes: &Attributes) -> Stopwatch<'_> {
        let now = Instant::now();
        Stopwatch { steps: &self.steps, stage, operation: attributes.operation, began: now, last: now }
    }
}

impl Stopwatch<'_> {
    /// Records the duration of a plugin's call. A rejection ends the step.
    fn observe_plugin(&mut self, metrics: &PluginMetrics, outcome: Result<(), Status>) -> Result<(), Status> {
        let now = Instant::now();
        metrics.observe(self.key(outcome.is_err()), now - self.last);
        self.last = now;
        outcome.inspect_err(|_| self.observe_step(true))
    }

    /// Records the duration of the step, once all plugins have admitted the request or one has rejected it.
    fn observe_step(&self, rejected: bool) {
        self.steps.observe(self.key(rejected), self.last - self.began, self.last);
    }

    fn key(&self, rejected: bool) -> MetricKey {
        MetricKey { stage: self.stage, operation: self.operation, rejected }
    }
}

impl Admission for Chain {
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a mut WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let reinvocation = Reinvocation::default();
            let request = Request::new(attributes, old, notes).in_pass(&reinvocation);
            let mut stopwatch = self.stopwatch(Stage::Mutate, attributes);
            loop {
                for measured in self.handling(Stage::Mutate, attributes) {
                    stopwatch.observe_plugin(&measured.metrics, measured.plugin.mutate(request, object).await)?;
                }
                if !reinvocation.begin_second() {
                    stopwatch.observe_step(false);
                    return Ok(());
                }
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let request = Request::new(attributes, old, notes);
            let mut stopwatch = self.stopwatch(Stage::Validate, attributes);
            for measured in self.handling(Stage::Validate, attributes) {
                stopwatch.observe_plugin(&measured.metrics, measured.plugin.validate(request, object).await)?;
            }
            stopwatch.observe_step(false);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoOpinionAuthorizer;

    impl binnacle_authz::Authorizer for NoOpinionAuthorizer {
        fn authorize<'a>(
            &'a self,
            _: &'a binnacle_authz::Attributes<'a>,
        ) -> BoxFuture<'a, Result<binnacle_request::Decision, binnacle_authz::AuthzError>> {
            Box::pin(async { Ok(binnacle_request::Decision::NoOpinion("".into())) })
        }
    }

    /// A plugin that rejects creates; it handles them if the flag is true.
    struct RefusingPlugin(&'static str, bool);

    impl Plugin for RefusingPlugin {
        fn name(&self) -> &'static str {
            self.0
        }

        fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
            self.1 && stage == Stage::Validate && attributes.operation == Operation::Create
        }

        fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
            Box::pin(async move { Err(crate::forbidden(request.attributes, object, "no")) })
        }
    }

    #[tokio::test]
    async fn counts_calls_of_registered_plugins() {
        let registry = binnacle_metrics::Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let plugins: [(&'static str, bool); 4] = [
            ("LimitRanger", false),
            ("PodSecurity", true),
            ("PersistentVolumeClaimResize", false),
            ("ResourceQuota", false),
        ];
        let plugins = plugins.map(|(name, handles)| Arc::new(RefusingPlugin(name, handles)) as Arc<dyn Plugin>);
        let chain = Chain::new(plugins.to_vec(), &metrics).unwrap();
        let (mut object, notes) = (WriteObject::default(), RequestNotes::default());
        for (operation, allowed) in [(Operation::Create, false), (Operation::Update, true), (Operation::Delete, true)] {
            let pods = crate::testing::pods(operation);
            chain.mutate(&pods, &mut object, None, &notes).await.unwrap();
            assert_eq!(chain.validate(&pods, &object, None, &notes).await.is_ok(), allowed);
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let value = |line: &str| text.lines().find_map(|l| l.strip_prefix(line)).map(|value| value.trim().to_owned());
        for (name, operation, rejected, stage, want) in [
            // Counted for requests of any resource.
            ("LimitRanger", "CREATE", false, "admit", Some("1")),
            ("LimitRanger", "CREATE", false, "validate", Some("1")),
            ("LimitRanger", "UPDATE", false, "validate", Some("1")),
            ("LimitRanger", "DELETE", false, "validate", None),
            ("PodSecurity", "CREATE", false, "admit", None),
            ("PodSecurity", "CREATE", true, "validate", Some("1")),
            ("PodSecurity", "UPDATE", false, "validate", Some("1")),
            // No plugin is called after a rejection.
            ("ResourceQuota", "CREATE", false, "validate", None),
            ("ResourceQuota", "UPDATE", false, "validate", Some("1")),
            ("PersistentVolumeClaimResize", "CREATE", false, "validate", None),
            ("PersistentVolumeClaimResize", "UPDATE", false, "validate", Some("1")),
        ] {
            let family = "apiserver_admission_controller_admission_duration_seconds";
            let labels = format!("name=\"{name}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{stage}\"");
            assert_eq!(value(&format!("{family}_count{{{labels}}}")).as_deref(), want, "{labels}");
            let bucket = value(&format!("{family}_bucket{{{labels},le=\"2.5\"}}"));
            assert_eq!(bucket.as_deref(), want, "{labels}");
        }
    }

    #[test]
    fn builds_all_plugins_in_order() {
        let authorizer: Arc<dyn binnacle_authz::Authorizer> = Arc::new(NoOpinionAuthorizer);
        let lookup = crate::testing::FixedLookup::new(Vec::new());
        let metrics = Metrics::fresh();
        let plugins = crate::all(lookup, &authorizer, &crate::PluginOptions::default(), &metrics.pod_security);
        let chain = Chain::new(plugins, &metrics).expect("all have a place");
        // ImagePolicyWebhook needs a configuration, and the plugins for webhooks and policies are in other crates.
        const OTHER_CRATES: [&str; 5] = [
            "ImagePolicyWebhook",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionWebhook",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionWebhook",
        ];
        let names_built: Vec<_> = ORDER.iter().copied().filter(|name| !OTHER_CRATES.contains(name)).collect();
        assert_eq!(chain.names().collect::<Vec<_>>(), names_built);
        assert!(OFF_BY_DEFAULT.iter().all(|name| ORDER.contains(name)));
    }
}
