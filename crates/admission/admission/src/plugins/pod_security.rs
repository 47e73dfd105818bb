//! PodSecurity (KEP-2579): the labels of a namespace select the pod security standards to enforce, audit and warn
//! about.

mod baseline;
mod checks;
mod metrics;
mod policy;
mod restricted;
mod settings;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_features::Version;
use binnacle_fields::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec,
};
use binnacle_fields::batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec};
use binnacle_fields::core::v1::{
    Container, PodSpec, PodTemplate, PodTemplateSpec, ReplicationController, ReplicationControllerSpec,
};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{FieldErrors, GroupResource, Status, Text, aggregate};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::pod;
use crate::lookup::{Freshness, Labels, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};
use checks::{Evaluations, Violations, evaluate};
use metrics::Mode;
pub use metrics::PodSecurityMetrics;
use policy::{Level, LevelVersion, Policy};
pub use settings::PodSecuritySettings;
use subject::Subject;

/// The limits of the check of existing pods when the policy of a namespace becomes stricter: their number and the time.
const PODS_MAX: usize = 3000;
const PODS_TIME: Duration = Duration::from_secs(1);

/// Subresources of pods that do not change the spec.
const IGNORED: [&str; 8] = ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// Returns the pod template of an object.
type ReadTemplate = fn(&Value) -> FieldRef<'static, '_, PodTemplateSpec>;

macro_rules! template {
    ($($field:expr),+) => { |object| FieldRef::root(object)$(.at($field))+.detached() };
}

/// Resources with a pod template.
const TEMPLATES: [(&str, &str, ReadTemplate); 8] = [
    ("", "podtemplates", template!(PodTemplate::TEMPLATE)),
    ("", "replicationcontrollers", template!(ReplicationController::SPEC, ReplicationControllerSpec::TEMPLATE)),
    ("apps", "daemonsets", template!(DaemonSet::SPEC, DaemonSetSpec::TEMPLATE)),
    ("apps", "deployments", template!(Deployment::SPEC, DeploymentSpec::TEMPLATE)),
    ("apps", "replicasets", template!(ReplicaSet::SPEC, ReplicaSetSpec::TEMPLATE)),
    ("apps", "statefulsets", template!(StatefulSet::SPEC, StatefulSetSpec::TEMPLATE)),
    (
        "batch",
        "cronjobs",
        template!(CronJob::SPEC, CronJobSpec::JOB_TEMPLATE, JobTemplateSpec::SPEC, JobSpec::TEMPLATE),
    ),
    ("batch", "jobs", template!(Job::SPEC, JobSpec::TEMPLATE)),
];

/// Keys of audit annotations.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const ERROR: &str = "pod-security.kubernetes.io/error";

pub(crate) struct PodSecurity {
    lookup: Arc<dyn Lookup>,
    settings: PodSecuritySettings,
    metrics: PodSecurityMetrics,
    /// The newest minor version whose standards are known: the one that the server emulates.
    newest: u32,
}

impl PodSecurity {
    pub(crate) fn new(
        lookup: Arc<dyn Lookup>,
        settings: PodSecuritySettings,
        emulated: Version,
        metrics: PodSecurityMetrics,
    ) -> Self {
        Self { lookup, settings, metrics, newest: u32::from(emulated.minor) }
    }

    async fn check_namespace(&self, request: Request<'_>, object: &Value) -> Result<(), Status> {
        let defaults = &self.settings.defaults;
        let name = name(object);
        let (policy, errors) = Policy::of_object(object, defaults);
        let Some(old) = request.old else {
            self.refuse_labels(request, object, errors)?;
            if self.settings.exempts_namespace(name) {
                self.warn_of_exemption(request, object, &policy);
            }
            return Ok(());
        };
        let (old_policy, old_errors) = Policy::of_object(old, defaults);
        // Labels that were already invalid do not prevent other changes.
        let shown = |errors: &FieldErrors| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        if !errors.is_empty() && shown(&errors) != shown(&old_errors) {
            return self.refuse_labels(request, object, errors);
        }
        let (new, old) = (policy.enforce, old_policy.enforce);
        if new == old || new.level == Level::Privileged || (new.version == old.version && new.level <= old.level) {
            return Ok(());
        }
        if self.settings.exempts_namespace(name) {
            self.warn_of_exemption(request, object, &policy);
            return Ok(());
        }
        match self.lookup.list(LookupKind::Pod, name, Freshness::Cached).await {
            Ok(mut pods) => {
                pods.retain(|pod| !self.settings.exempts_runtime_class_of(pod::spec(pod)));
                warn_of_pods(request, name, (new, self.newest), prioritized(pods));
            }
            Err(_) => request.warn("failed to list pods while checking new PodSecurity enforce level"),
        }
        Ok(())
    }

    fn refuse_labels(&self, request: Request<'_>, object: &Value, errors: FieldErrors) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        let kind = request.attributes.kind.group_kind();
        Err(Status::invalid(&kind, name(object), &errors))
    }

    async fn check_pod(&self, request: Request<'_>, pod: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        if self.exempts_caller(request) {
            return Ok(());
        }
        let labels = match self.labels(&attributes.namespace).await {
            Ok(labels) => labels,
            Err(why) => {
                self.metrics.record_error(attributes, true);
                let name = binnacle_meta::go_quote(&attributes.namespace);
                let status = Status::internal(format!("failed to lookup namespace {name}"));
                request.annotate(ERROR, format_args!("{}: {}", status.message(), why.message()));
                return Err(status);
            }
        };
        let (policy, errors) = Policy::of_labels(&labels, &self.settings.defaults);
        if errors.is_empty() && policy.is_fully_privileged() {
            self.metrics.record_evaluation(attributes, policy.enforce, Mode::Enforce, true);
            request.annotate(ENFORCED, LevelVersion::PRIVILEGED);
            return Ok(());
        }
        let spec = pod::spec(pod);
        if request.old.is_some_and(|old| !is_significant(spec, pod::spec(old))) || self.exempts_class(request, spec) {
            return Ok(());
        }
        self.record_errors(request, &errors);
        request.annotate(ENFORCED, policy.enforce);
        let mut found = Evaluations::of(pod, self.newest);
        let violations = found.against(policy.enforce);
        self.metrics.record_evaluation(attributes, policy.enforce, Mode::Enforce, violations.is_empty());
        let refusal = (!violations.is_empty()).then(|| {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
            forbidden(attributes, pod, why)
        });
        self.audit(request, policy.audit, &mut found);
        match refusal {
            Some(refusal) => Err(refusal),
            None => {
                self.warn(request, policy.warn, &mut found);
                Ok(())
            }
        }
    }

    async fn check_template(&self, request: Request<'_>, object: &Value, read: ReadTemplate) {
        if self.exempts_caller(request) {
            return;
        }
        let attributes = request.attributes;
        let labels = match self.labels(&attributes.namespace).await {
            Ok(labels) => labels,
            Err(why) => {
                // Checks that only warn do not fail the request if the namespace is not found.
                self.metrics.record_error(attributes, true);
                let name = binnacle_meta::go_quote(&attributes.namespace);
                request.annotate(ERROR, format_args!("failed to lookup namespace {name}: {}", why.message()));
                return;
            }
        };
        let (policy, errors) = Policy::of_labels(&labels, &self.settings.defaults);
        let is_reported = [policy.audit, policy.warn].iter().any(|each| each.level != Level::Privileged);
        if errors.is_empty() && !is_reported {
            return;
        }
        let template = read(object);
        if !template.is_set() || self.exempts_class(request, template.at(PodTemplateSpec::SPEC)) {
            return;
        }
        self.record_errors(request, &errors);
        let mut found = Evaluations::of(template.value(), self.newest);
        self.audit(request, policy.audit, &mut found);
        self.warn(request, policy.warn, &mut found);
    }

    /// Adds the violations to the audit events.
    fn audit(&self, request: Request<'_>, policy: LevelVersion, found: &mut Evaluations<'_>) {
        let violations = found.against(policy);
        if !violations.is_empty() {
            let details = violations.details();
            request.annotate(VIOLATIONS, format_args!("would violate PodSecurity \"{policy}\": {details}"));
            self.metrics.record_evaluation(request.attributes, policy, Mode::Audit, false);
        }
    }

    fn warn(&self, request: Request<'_>, policy: LevelVersion, found: &mut Evaluations<'_>) {
        let violations = found.against(policy);
        if !violations.is_empty() {
            request.warn(format!("would violate PodSecurity \"{policy}\": {}", violations.details()));
            self.metrics.record_evaluation(request.attributes, policy, Mode::Warn, false);
        }
    }

    /// Records invalid labels, which do not fail a request: the strictest level is enforced instead.
    fn record_errors(&self, request: Request<'_>, errors: &FieldErrors) {
        if !errors.is_empty() {
            let errors = aggregate(errors.iter().map(ToString::to_string));
            request.annotate(ERROR, format_args!("Failed to parse policy: {errors}"));
            self.metrics.record_error(request.attributes, false);
        }
    }

    /// Returns true if the request's namespace or user is exempt.
    fn exempts_caller(&self, request: Request<'_>) -> bool {
        let attributes = request.attributes;
        let why = if self.settings.exempts_namespace(&attributes.namespace) {
            "namespace"
        } else if self.settings.exempts_user(&attributes.user.name) {
            "user"
        } else {
            return false;
        };
        self.record_exemption(request, why);
        true
    }

    /// Returns true if the pod's runtime class is exempt.
    fn exempts_class(&self, request: Request<'_>, spec: FieldRef<PodSpec>) -> bool {
        let exempt = self.settings.exempts_runtime_class_of(spec);
        if exempt {
            self.record_exemption(request, "runtimeClass");
        }
        exempt
    }

    fn record_exemption(&self, request: Request<'_>, why: &str) {
        self.metrics.record_exemption(request.attributes);
        request.annotate(EXEMPT, why);
    }

    /// Warns that the labels have no effect on an exempt namespace.
    fn warn_of_exemption(&self, request: Request<'_>, namespace: &Value, policy: &Policy) {
        if policy.is_fully_privileged() || policy.is_like(&self.settings.defaults) {
            return;
        }
        let name = binnacle_meta::go_quote(name(namespace));
        let policy_text = policy.labels_text(metadata(namespace).at(ObjectMeta::LABELS));
        request.warn(format!(
            "namespace {name} is exempt from Pod Security, and the policy ({policy_text}) will be ignored"
        ));
    }

    async fn labels(&self, namespace: &str) -> Result<Labels, Status> {
        for freshness in [Freshness::Cached, Freshness::Consistent] {
            if let Some(labels) = self.lookup.labels(LookupKind::Namespace, "", namespace, freshness).await? {
                return Ok(labels);
            }
        }
        Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace))
    }
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
                ("", "pods") => !IGNORED.contains(&attributes.subresource.as_str()),
                ("", "namespaces") => attributes.subresource.is_empty(),
                _ => template_of(attributes).is_some(),
            }
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match request.attributes.resource.resource.as_str() {
                "namespaces" => self.check_namespace(request, object).await,
                "pods" => self.check_pod(request, object).await,
                _ => {
                    if let Some(read) = template_of(request.attributes) {
                        self.check_template(request, object, read).await;
                    }
                    Ok(())
                }
            }
        })
    }
}

fn template_of(attributes: &Attributes) -> Option<ReadTemplate> {
    let found = TEMPLATES.iter().find(|(group, plural, _)| is_resource(attributes, group, plural));
    found.map(|(_, _, read)| *read)
}

fn name(object: &Value) -> &str {
    metadata(object).at(ObjectMeta::NAME).str()
}

/// Returns true if an update changes a pod's containers or images.
fn is_significant(spec: FieldRef<PodSpec>, old: FieldRef<PodSpec>) -> bool {
    let differs =
        |a: FieldRef<Container>, b: FieldRef<Container>| a.at(Container::IMAGE).str() != b.at(Container::IMAGE).str();
    for list in [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS] {
        let (new, old) = (spec.at(list).values(), old.at(list).values());
        if new.len() != old.len() || new.zip(old).any(|(new, old)| differs(new, old)) {
            return true;
        }
    }
    pod::ephemeral_containers(spec).any(|new| {
        let name = new.at(Container::NAME).str();
        let same = pod::ephemeral_containers(old).find(|old| old.at(Container::NAME).str() == name);
        same.is_none_or(|old| differs(new, old))
    })
}

/// Sorts the first pod of each controller before the others, which are most likely similar.
fn prioritized(pods: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    let mut seen: HashSet<Text> = HashSet::new();
    let mut later = Vec::new();
    let mut first = Vec::new();
    for pod in pods {
        let is_controller = |owner: &FieldRef<OwnerReference>| owner.at(OwnerReference::CONTROLLER).bool();
        let controller = metadata(&pod).at(ObjectMeta::OWNER_REFERENCES).values().find(is_controller);
        match controller.map(|owner| Text::from(owner.at(OwnerReference::UID).str())) {
            Some(uid) if seen.contains(&uid) => later.push(pod),
            Some(uid) => {
                seen.insert(uid);
                first.push(pod);
            }
            None => first.push(pod),
        }
    }
    first.append(&mut later);
    first
}

/// Warns about existing pods that violate a namespace's new level.
fn warn_of_pods(request: Request<'_>, namespace: &str, (enforce, newest): (LevelVersion, u32), pods: Vec<Arc<Value>>) {
    let began = Instant::now();
    let mut checked = 0;
    // For each reason, the first pod by name and the number of pods.
    let mut by_reason: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(PODS_MAX) {
        let violations: Violations = evaluate(enforce, &Subject::of(pod), newest);
        if !violations.is_empty() {
            let name = name(pod);
            let (first, count) = by_reason.entry(violations.reasons()).or_insert_with(|| (name.to_owned(), 0));
            if name < first.as_str() {
                *first = name.to_owned();
            }
            *count += 1;
        }
        checked += 1;
        if began.elapsed() > PODS_TIME {
            break;
        }
    }
    if checked < pods.len() {
        let total = pods.len();
        request.warn(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if by_reason.is_empty() {
        return;
    }
    request.warn(format!(
        "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{enforce}\""
    ));
    let mut texts: Vec<String> = by_reason
        .into_iter()
        .map(|(reason, (name, count))| match count {
            1 => format!("{name}: {reason}"),
            2 => format!("{name} (and 1 other pod): {reason}"),
            _ => format!("{name} (and {} other pods): {reason}", count - 1),
        })
        .collect();
    texts.sort();
    texts.into_iter().for_each(|text| request.warn(text));
}
