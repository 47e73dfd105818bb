//! Rules that an update relaxes because the old object breaks them.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Affinity, Container, ContainerResizePolicy, NodeAffinity, PodAffinity, PodAffinityTerm as Term, PodSecurityContext,
    PodSpec, PodTemplateSpec, ProjectedVolumeSource, ResourceRequirements, ServiceAccountTokenProjection as Token,
    Sysctl, Toleration, TopologySpreadConstraint as Constraint, Volume, VolumeProjection, WeightedPodAffinityTerm,
};
use binnacle_fields::meta::v1::{LabelSelector, ObjectMeta};
use binnacle_fields::types::List;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::selectors;

use super::annotations::has_invalid_deletion_cost;
use super::options::merges_label_keys;
use super::{PodValidationOptions, paths, requirements, scheduling, security};
use crate::Features;
use crate::gated::in_use;
use crate::pod_spec::containers::{all_containers, is_sidecar, restarts_all_containers};
use crate::pod_spec::disabled_fields::{FILE_KEYS, has_restart_rules};
use binnacle_validation::pod_resources::{is_huge_page, quantity};

impl<'a> PodValidationOptions<'a> {
    /// Returns the options for a pod that replaces `old`.
    pub(crate) fn for_pod_update(features: &'a Features, old: &Value) -> Self {
        Self { is_pod: true, ..Self::for_update(features, old) }
    }

    /// Returns the options for a template (or pod) that replaces `old`, an object with `metadata` and `spec`.
    pub(crate) fn for_update(features: &'a Features, old: &Value) -> Self {
        let old = FieldRef::<PodTemplateSpec>::root(old);
        let (metadata, spec) = (old.at(PodTemplateSpec::METADATA), old.at(PodTemplateSpec::SPEC));
        let (context, containers) = (spec.at(PodSpec::SECURITY_CONTEXT), all_containers(&spec));
        let spread = spec.at(PodSpec::TOPOLOGY_SPREAD_CONSTRAINTS);
        let own_users = spec.at(PodSpec::HOST_USERS).get_bool() == Some(false);
        Self {
            features,
            is_pod: false,
            any_deletion_cost: !features.enabled("PodDeletionCost")
                || has_invalid_deletion_cost(metadata.at(ObjectMeta::ANNOTATIONS).object()),
            any_selector_value: has_invalid_selector(spec),
            any_node_label_value: has_invalid_label_values(spec),
            any_spread_selector: spread.items().any(|c| is_invalid(c.at(Constraint::LABEL_SELECTOR))),
            unmerged_label_keys: unmerged_label_keys(features, spread),
            any_token_path: has_outside_token_path(spec),
            any_host_sysctl: context
                .at(PodSecurityContext::SYSCTLS)
                .items()
                .any(|sysctl| security::host_sysctl(spec, sysctl.at(Sysctl::NAME).str()).is_some()),
            any_huge_pages: containers.iter().any(has_indivisible_huge_pages),
            any_selinux_policy: !context.at(PodSecurityContext::SE_LINUX_CHANGE_POLICY).is_empty(),
            compare_tolerations: spec
                .at(PodSpec::TOLERATIONS)
                .items()
                .any(|toleration| matches!(toleration.at(Toleration::OPERATOR).str(), "Lt" | "Gt")),
            file_keys: FILE_KEYS.iter().any(|route| in_use(spec, *route)),
            restart_rules: has_restart_rules(Some(spec)),
            restart_all_containers: restarts_all(spec),
            restarting_init_containers: spec.at(PodSpec::INIT_CONTAINERS).items().any(restarts_for_resize),
            users_with_devices: own_users
                && containers.iter().any(|container| !container.at(Container::VOLUME_DEVICES).is_empty()),
            users_with_host_network: own_users && spec.at(PodSpec::HOST_NETWORK).bool(),
        }
    }
}

/// Returns true if some container restarts all of them, or is a sidecar with rules: one feature gate covers both.
fn restarts_all(spec: FieldRef<PodSpec>) -> bool {
    let rules = |container: FieldRef<Container>| !container.at(Container::RESTART_POLICY_RULES).is_empty();
    let init = spec.at(PodSpec::INIT_CONTAINERS);
    restarts_all_containers(spec.value()) || init.items().any(|c| is_sidecar(c.value()) && rules(c))
}

/// Returns true for an init container, other than a sidecar, that restarts when it is resized.
fn restarts_for_resize(container: FieldRef<Container>) -> bool {
    let policies = container.at(Container::RESIZE_POLICY);
    let mut policies = policies.items().map(|policy| policy.at(ContainerResizePolicy::RESTART_POLICY).str());
    !is_sidecar(container.value()) && policies.any(|policy| policy == "RestartContainer")
}

fn has_invalid_selector(spec: FieldRef<PodSpec>) -> bool {
    let affinity = spec.at(PodSpec::AFFINITY);
    // Invalid namespace selectors were never accepted.
    let breaks = |term: FieldRef<Term>| is_invalid(term.at(Term::LABEL_SELECTOR));
    // Both have the same fields.
    [affinity.at(Affinity::POD_AFFINITY), affinity.at(Affinity::POD_ANTI_AFFINITY).cast()].iter().any(|rules| {
        let required = rules.at(PodAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
        let preferred = rules.at(PodAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
        required.items().any(breaks)
            || preferred.items().any(|term| breaks(term.at(WeightedPodAffinityTerm::POD_AFFINITY_TERM)))
    })
}

fn is_invalid(selector: FieldRef<LabelSelector>) -> bool {
    selectors::is_invalid(selector.get())
}

fn has_invalid_label_values(spec: FieldRef<PodSpec>) -> bool {
    let affinity = spec.at(PodSpec::AFFINITY);
    let affinity = affinity.at(Affinity::NODE_AFFINITY);
    let required = affinity.at(NodeAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
    scheduling::has_invalid_label_values(required)
}

/// Returns true if label keys are validated as unmerged, as the feature gates say, unless the old object breaks that
/// rule.
fn unmerged_label_keys(features: &Features, constraints: FieldRef<List<Constraint>>) -> bool {
    let breaks = |rule: fn(FieldRef<Constraint>, &mut FieldErrors)| {
        let mut errors = FieldErrors::new();
        constraints.items().for_each(|constraint| rule(constraint, &mut errors));
        !errors.is_empty()
    };
    if merges_label_keys(features) {
        breaks(|constraint, errors| scheduling::label_keys(scheduling::as_term(constraint), errors))
    } else {
        !features.enabled("MatchLabelKeysInPodTopologySpread") || !breaks(scheduling::unmerged_label_keys)
    }
}

fn has_outside_token_path(spec: FieldRef<PodSpec>) -> bool {
    spec.at(PodSpec::VOLUMES).items().any(|volume| {
        let projected = volume.at(Volume::PROJECTED);
        projected.at(ProjectedVolumeSource::SOURCES).items().any(|source| {
            let token = source.at(VolumeProjection::SERVICE_ACCOUNT_TOKEN);
            let path = token.at(Token::PATH);
            let mut errors = FieldErrors::new();
            paths::descending_not_reserved(&path, path.str(), &mut errors);
            !errors.is_empty()
        })
    })
}

fn has_indivisible_huge_pages(container: FieldRef<Container>) -> bool {
    let requirements = container.at(Container::RESOURCES);
    [ResourceRequirements::LIMITS, ResourceRequirements::REQUESTS].into_iter().any(|list| {
        requirements.at(list).entries().filter(|(name, _)| is_huge_page(name)).any(|(name, amount)| {
            quantity(amount.value()).is_some_and(|amount| !requirements::is_divisible(name, &amount))
        })
    })
}
