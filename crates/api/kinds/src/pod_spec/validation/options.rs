//! The options of the validation of pods and templates.

use crate::Features;

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
}

/// Returns true if label keys of topology spread constraints are merged into their selectors.
pub(crate) fn merges_label_keys(features: &Features) -> bool {
    features.enabled("MatchLabelKeysInPodTopologySpread")
        && features.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge")
}
