//! The admission chain: the enabled plugins, in calling order.

use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::Status;
use binnacle_registry::RequestNotes;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Admission, Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::metrics::{Metrics, Part, PluginMetrics, StepMetrics};
use crate::plugin::{Plugin, Request, Stage};
use crate::reinvocation::Reinvocation;

/// All plugins of kube-apiserver in the order in which they are called. Plugins of other crates are placed by their
/// names.
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

/// The plugins of [`ORDER`] that are enabled only by a flag. Unlike in kube-apiserver, NodeRestriction is enabled:
/// without it the node authorizer, which is on by default, restricts kubelets little.
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

/// Error for a plugin that [`ORDER`] does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlugin(pub &'static str);

impl std::fmt::Display for UnknownPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "admission plugin {:?} is unknown", self.0)
    }
}

impl std::error::Error for UnknownPlugin {}

/// The plugins of a server, in calling order.
pub struct Chain {
    plugins: Vec<MeasuredPlugin>,
    steps: StepMetrics,
}

struct MeasuredPlugin {
    plugin: Arc<dyn Plugin>,
    metrics: PluginMetrics,
}

/// A stopwatch for each plugin's call and for the whole step.
struct Watch<'a> {
    steps: &'a StepMetrics,
    stage: Stage,
    operation: Operation,
    began: Instant,
    last: Instant,
}

impl Chain {
    /// Sorts the plugins by [`ORDER`].
    pub fn new(plugins: Vec<Arc<dyn Plugin>>, metrics: &Metrics) -> Result<Self, UnknownPlugin> {
        let place = |plugin: &Arc<dyn Plugin>| {
            let name = plugin.name();
            ORDER.iter().position(|known| *known == name).ok_or(UnknownPlugin(name))
        };
        let mut placed: Vec<_> =
            plugins.into_iter().map(|plugin| Ok((place(&plugin)?, plugin))).collect::<Result<_, _>>()?;
        placed.sort_by_key(|(place, _)| *place);
        let asked =
            |(_, plugin): (_, Arc<dyn Plugin>)| MeasuredPlugin { metrics: metrics.of_plugin(plugin.name()), plugin };
        Ok(Self { plugins: placed.into_iter().map(asked).collect(), steps: metrics.of_steps() })
    }

    /// Iterates over the names of the plugins, in calling order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|asked| asked.plugin.name())
    }

    /// Iterates over the plugins that handle a request, and counts the others as passed.
    fn asked<'a>(
        &'a self,
        stage: Stage,
        attributes: &'a Attributes,
    ) -> impl Iterator<Item = &'a MeasuredPlugin> + Send {
        self.plugins.iter().filter(move |asked| {
            let handles = asked.plugin.handles(stage, attributes);
            if !handles {
                asked.metrics.pass(stage, attributes.operation);
            }
            handles
        })
    }

    fn watch(&self, stage: Stage, attributes: &Attributes) -> Watch<'_> {
        let now = Instant::now();
        Watch { steps: &self.steps, stage, operation: attributes.operation, began: now, last: now }
    }
}

impl Watch<'_> {
    /// Observes the time of a plugin's call. A refusal ends the step.
    fn answered(&mut self, metrics: &PluginMetrics, answer: Result<(), Status>) -> Result<(), Status> {
        let now = Instant::now();
        metrics.observe(self.part(answer.is_err()), now - self.last);
        self.last = now;
        answer.inspect_err(|_| self.ended(true))
    }

    /// Observes the time of the step, once all plugins have answered or one has refused.
    fn ended(&self, rejected: bool) {
        self.steps.observe(self.part(rejected), self.last - self.began, self.last);
    }

    fn part(&self, rejected: bool) -> Part {
        Part { stage: self.stage, operation: self.operation, rejected }
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
            let mut watch = self.watch(Stage::Mutate, attributes);
            loop {
                for asked in self.asked(Stage::Mutate, attributes) {
                    watch.answered(&asked.metrics, asked.plugin.mutate(request, object).await)?;
                }
                if !reinvocation.begin_second() {
                    watch.ended(false);
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
            let mut watch = self.watch(Stage::Validate, attributes);
            for asked in self.asked(Stage::Validate, attributes) {
                watch.answered(&asked.metrics, asked.plugin.validate(request, object).await)?;
            }
            watch.ended(false);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl binnacle_authz::Authorizer for Nobody {
        fn authorize<'a>(
            &'a self,
            _: &'a binnacle_authz::Attributes<'a>,
        ) -> BoxFuture<'a, Result<binnacle_request::Decision, binnacle_authz::AuthzError>> {
            Box::pin(async { Ok(binnacle_request::Decision::NoOpinion("".into())) })
        }
    }

    /// A plugin that refuses creates; it handles them if the flag is true.
    struct Refuses(&'static str, bool);

    impl Plugin for Refuses {
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
    async fn counts() {
        let registry = binnacle_metrics::Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let plugins: [(&'static str, bool); 4] = [
            ("LimitRanger", false),
            ("PodSecurity", true),
            ("PersistentVolumeClaimResize", false),
            ("ResourceQuota", false),
        ];
        let plugins = plugins.map(|(name, handles)| Arc::new(Refuses(name, handles)) as Arc<dyn Plugin>);
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
            // For requests of any resource.
            ("LimitRanger", "CREATE", false, "admit", Some("1")),
            ("LimitRanger", "CREATE", false, "validate", Some("1")),
            ("LimitRanger", "UPDATE", false, "validate", Some("1")),
            ("LimitRanger", "DELETE", false, "validate", None),
            ("PodSecurity", "CREATE", false, "admit", None),
            ("PodSecurity", "CREATE", true, "validate", Some("1")),
            ("PodSecurity", "UPDATE", false, "validate", Some("1")),
            // No plugin is called after a refusal.
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
    fn names() {
        let authorizer: Arc<dyn binnacle_authz::Authorizer> = Arc::new(Nobody);
        let lookup = crate::testing::Known::new(Vec::new());
        let metrics = Metrics::fresh();
        let plugins = crate::all(lookup, &authorizer, &crate::PluginOptions::default(), &metrics);
        let chain = Chain::new(plugins, &metrics).expect("all have a place");
        // ImagePolicyWebhook needs settings, absent here; plugins for webhooks and policies are in other crates.
        const ELSEWHERE: [&str; 5] = [
            "ImagePolicyWebhook",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionWebhook",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionWebhook",
        ];
        let built: Vec<_> = ORDER.iter().copied().filter(|name| !ELSEWHERE.contains(name)).collect();
        assert_eq!(chain.names().collect::<Vec<_>>(), built);
        assert!(OFF_BY_DEFAULT.iter().all(|name| ORDER.contains(name)));
    }
}
