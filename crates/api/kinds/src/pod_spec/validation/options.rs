//! Rules that an update relaxes because the old object breaks them.

use binnacle_meta::{FieldErrors, FieldPath, Quantity};
use binnacle_schema::{Object, Value};
use binnacle_validation::selectors;

use super::annotations::has_invalid_deletion_cost;
use super::containers::{all, is_sidecar, restarts_all_containers};
use super::{paths, scheduling, security};
use crate::Features;
use crate::gated_names::in_use;
use crate::pod_spec::dropped::{CONTAINERS, has_restart_rules};
use binnacle_validation::pod_resources::is_huge_page;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Rules that are relaxed.
#[derive(Clone, Debug)]
pub(crate) struct PodValidationOptions<'a> {
    pub(crate) features: &'a Features,
    /// True for a pod, false for a template.
    pub(crate) is_pod: bool,
    pub(crate) any_deletion_cost: bool,
    pub(crate) any_selector_value: bool,
    pub(crate) any_node_label_value: bool,
    pub(crate) any_spread_selector: bool,
    pub(crate) unmerged_label_keys: bool,
    pub(crate) any_token_path: bool,
    pub(crate) any_host_sysctl: bool,
    pub(crate) any_huge_pages: bool,
    pub(crate) any_selinux_policy: bool,
    pub(crate) compare_tolerations: bool,
    pub(crate) file_keys: bool,
    pub(crate) restart_rules: bool,
    pub(crate) restart_all_containers: bool,
    pub(crate) restarting_init_containers: bool,
    pub(crate) users_with_devices: bool,
    pub(crate) users_with_host_network: bool,
}

impl<'a> PodValidationOptions<'a> {
    /// Returns options without relaxed rules.
    pub(crate) fn strict(features: &'a Features) -> Self {
        Self {
            features,
            is_pod: false,
            any_deletion_cost: false,
            any_selector_value: false,
            any_node_label_value: false,
            any_spread_selector: false,
            unmerged_label_keys: false,
            any_token_path: false,
            any_host_sysctl: false,
            any_huge_pages: false,
            any_selinux_policy: false,
            compare_tolerations: false,
            file_keys: false,
            restart_rules: false,
            restart_all_containers: false,
            restarting_init_containers: false,
            users_with_devices: false,
            users_with_host_network: false,
        }
    }

    /// Returns the options for a new pod.
    pub(crate) fn for_pod(features: &'a Features) -> Self {
        Self { is_pod: true, ..Self::for_template(features) }
    }

    /// Returns the options for a new template.
    pub(crate) fn for_template(features: &'a Features) -> Self {
        let unmerged_label_keys = !merges_label_keys(features);
        Self { any_deletion_cost: !features.enabled("PodDeletionCost"), unmerged_label_keys, ..Self::strict(features) }
    }

    /// Returns true if tolerations may compare values as numbers.
    pub(crate) fn compares_tolerations(&self) -> bool {
        self.compare_tolerations || self.features.enabled("TaintTolerationComparisonOperators")
    }

    /// Returns true if variables may come from files.
    pub(crate) fn allows_file_keys(&self) -> bool {
        self.file_keys || self.features.enabled("EnvFiles")
    }

    /// Returns true if containers may have restart rules.
    pub(crate) fn allows_restart_rules(&self) -> bool {
        self.restart_rules || self.features.enabled("ContainerRestartRules")
    }

    /// Returns true if the exit of a container may restart all containers, and sidecars may have rules.
    pub(crate) fn allows_restart_of_all(&self) -> bool {
        self.restart_all_containers || self.features.enabled("RestartAllContainersOnContainerExits")
    }

    /// Returns the options for a pod that replaces `old`.
    pub(crate) fn for_pod_update(features: &'a Features, old: &Value) -> Self {
        Self { is_pod: true, ..Self::for_update(features, old) }
    }

    /// Returns the options for a template (or pod) that replaces `old`, an object with `metadata` and `spec`.
    pub(crate) fn for_update(features: &'a Features, old: &Value) -> Self {
        let null = Value::Null;
        let spec = old.get("spec").unwrap_or(&null);
        let spread = spec.list_at(&["topologySpreadConstraints"]);
        let own_users = spec.get("hostUsers").and_then(Value::as_bool) == Some(false);
        let root = FieldPath::root();
        let containers = || all(spec, &root).map(|(container, _)| container);
        let file_keys = CONTAINERS.map(|list| [list, "*", "env", "*", "valueFrom", "fileKeyRef"]);
        Self {
            features,
            is_pod: false,
            any_deletion_cost: !features.enabled("PodDeletionCost")
                || has_invalid_deletion_cost(old.object_at(&["metadata", "annotations"])),
            any_selector_value: has_invalid_selector(spec),
            any_node_label_value: spec
                .at(&["affinity", "nodeAffinity", REQUIRED])
                .is_some_and(scheduling::has_invalid_label_values),
            any_spread_selector: spread.iter().any(|c| selectors::is_invalid(c.get("labelSelector"))),
            unmerged_label_keys: unmerged_label_keys(features, spread),
            any_token_path: has_outside_token_path(spec),
            any_host_sysctl: spec
                .list_at(&["securityContext", "sysctls"])
                .iter()
                .any(|sysctl| security::host_sysctl(spec, sysctl.str_at(&["name"])).is_some()),
            any_huge_pages: containers().any(has_indivisible_huge_pages),
            any_selinux_policy: !spec.str_at(&["securityContext", "seLinuxChangePolicy"]).is_empty(),
            compare_tolerations: spec
                .list_at(&["tolerations"])
                .iter()
                .any(|toleration| matches!(toleration.str_at(&["operator"]), "Lt" | "Gt")),
            file_keys: file_keys.iter().any(|path| in_use(spec, path)),
            restart_rules: has_restart_rules(Some(spec)),
            restart_all_containers: restarts_all(spec),
            restarting_init_containers: spec
                .list_at(&["initContainers"])
                .iter()
                .filter(|container| !is_sidecar(container))
                .flat_map(|container| container.list_at(&["resizePolicy"]))
                .any(|policy| policy.str_at(&["restartPolicy"]) == "RestartContainer"),
            users_with_devices: own_users && containers().any(|c| !c.list_at(&["volumeDevices"]).is_empty()),
            users_with_host_network: own_users && spec.bool_at(&["hostNetwork"]),
        }
    }
}

/// Returns true if some container restarts all of them, or is a sidecar with rules: one feature gate covers both.
fn restarts_all(spec: &Value) -> bool {
    let rules = |container: &Value| !container.list_at(&["restartPolicyRules"]).is_empty();
    restarts_all_containers(spec)
        || spec.list_at(&["initContainers"]).iter().any(|container| is_sidecar(container) && rules(container))
}

fn has_invalid_selector(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |list: &str| spec.list_at(&["affinity", kind, list]).iter();
        let weighted = terms(PREFERRED).filter_map(|term| term.get("podAffinityTerm"));
        // Invalid namespace selectors were never accepted.
        terms(REQUIRED).chain(weighted).any(|term| selectors::is_invalid(term.get("labelSelector")))
    })
}

/// Returns true if label keys of topology spread constraints are merged into their selectors.
pub(crate) fn merges_label_keys(features: &Features) -> bool {
    features.enabled("MatchLabelKeysInPodTopologySpread")
        && features.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge")
}

/// Returns true if label keys are validated as unmerged, as the feature gates say, unless the old object breaks that
/// rule.
fn unmerged_label_keys(features: &Features, constraints: &[Value]) -> bool {
    let breaks = |rule: fn(&Value, &FieldPath, &mut FieldErrors)| {
        let mut errors = FieldErrors::new();
        constraints.iter().for_each(|constraint| rule(constraint, &FieldPath::root(), &mut errors));
        !errors.is_empty()
    };
    if merges_label_keys(features) {
        breaks(scheduling::label_keys)
    } else {
        !features.enabled("MatchLabelKeysInPodTopologySpread") || !breaks(scheduling::unmerged_label_keys)
    }
}

fn has_outside_token_path(spec: &Value) -> bool {
    let sources = spec.list_at(&["volumes"]).iter().flat_map(|volume| volume.list_at(&["projected", "sources"]));
    let mut tokens = sources.filter_map(|source| source.get("serviceAccountToken"));
    tokens.any(|token| {
        let mut errors = FieldErrors::new();
        paths::descending_not_reserved(&FieldPath::root(), token.str_at(&["path"]), &mut errors);
        !errors.is_empty()
    })
}

fn has_indivisible_huge_pages(container: &Value) -> bool {
    ["limits", "requests"].iter().filter_map(|list| container.object_at(&["resources", list])).any(|list| {
        let pages = Object::iter(list).filter(|(name, _)| is_huge_page(name));
        pages
            .filter_map(|(name, value)| Some((name, value.as_str()?.parse::<Quantity>().ok()?)))
            .any(|(name, amount)| !super::requirements::is_divisible(name, &amount))
    })
}
