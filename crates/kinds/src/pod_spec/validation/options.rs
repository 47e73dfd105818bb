//! What an update may keep of the old object although it breaks a rule of today.

use binnacle_meta::{FieldErrors, FieldPath, Quantity};
use binnacle_schema::{Object, Value};
use binnacle_validation::selectors;

use super::annotations::has_invalid_deletion_cost;
use super::containers::{all, is_sidecar};
use super::{paths, scheduling, security};
use crate::pod_spec::resources::is_huge_page;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Rules that are relaxed. The default is that none is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The rules are for a pod, not for a template.
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
    pub(crate) restarting_init_containers: bool,
    pub(crate) users_with_devices: bool,
    pub(crate) users_with_host_network: bool,
}

impl Options {
    /// For a new pod.
    pub(crate) fn for_pod() -> Self {
        Self { is_pod: true, ..Self::default() }
    }

    /// Whether tolerations may compare values as numbers.
    pub(crate) fn compares_tolerations(&self) -> bool {
        self.compare_tolerations || binnacle_features::enabled("TaintTolerationComparisonOperators")
    }

    /// For a pod that replaces `old`.
    pub(crate) fn for_pod_update(old: &Value) -> Self {
        Self { is_pod: true, ..Self::for_update(old) }
    }

    /// For a template (or pod) that replaces `old`, the object with `metadata` and `spec`.
    pub(crate) fn for_update(old: &Value) -> Self {
        let null = Value::Null;
        let spec = old.get("spec").unwrap_or(&null);
        let spread = spec.list_at(&["topologySpreadConstraints"]);
        let own_users = spec.get("hostUsers").and_then(Value::as_bool) == Some(false);
        let root = FieldPath::root();
        let containers = || all(spec, &root).map(|(container, _)| container);
        Self {
            is_pod: false,
            any_deletion_cost: has_invalid_deletion_cost(old.object_at(&["metadata", "annotations"])),
            any_selector_value: has_invalid_selector(spec),
            any_node_label_value: spec
                .at(&["affinity", "nodeAffinity", REQUIRED])
                .is_some_and(scheduling::has_invalid_label_values),
            any_spread_selector: spread.iter().any(|c| selectors::is_invalid(c.get("labelSelector"))),
            unmerged_label_keys: spread.iter().any(has_invalid_label_keys),
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

fn has_invalid_selector(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |list: &str| spec.list_at(&["affinity", kind, list]).iter();
        let weighted = terms(PREFERRED).filter_map(|term| term.get("podAffinityTerm"));
        // Namespace selectors were always strict.
        terms(REQUIRED).chain(weighted).any(|term| selectors::is_invalid(term.get("labelSelector")))
    })
}

fn has_invalid_label_keys(constraint: &Value) -> bool {
    let mut errors = FieldErrors::new();
    scheduling::label_keys(constraint, &FieldPath::root(), &mut errors);
    !errors.is_empty()
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
