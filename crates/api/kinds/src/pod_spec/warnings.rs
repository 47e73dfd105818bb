//! Warnings about pods and pod templates: fields that are deprecated, ignored, or probably not what was intended.

mod paths;
mod ports;

use std::collections::BTreeSet;

use binnacle_fields::core::v1::{
    Affinity, Container, EnvVar, EphemeralVolumeSource, HostAlias, LocalObjectReference, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, PodAffinity,
    PodAffinityTerm, PodDNSConfig, PodSecurityContext, PodSpec, PodTemplateSpec, PreferredSchedulingTerm,
    ResourceRequirements, SecurityContext, TopologySpreadConstraint, Volume, VolumeResourceRequirements,
    WeightedPodAffinityTerm,
};
use binnacle_fields::meta::v1::{LabelSelector, ObjectMeta};
use binnacle_fields::types::{List, Quantity, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldPath, go_quote};
use binnacle_schema::Value;
use binnacle_validation::{ip, names};

use super::app_armor;
use super::containers::all_containers;
use crate::node::{deprecated_label, deprecated_labels_in_term};
use binnacle_validation::pod_resources::quantity;

/// The maximum number of similar items that an item is compared with, and of warnings of each kind.
const ENOUGH: usize = 1024;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Returns warnings about a pod.
pub(crate) fn of_pod(pod: &Value) -> Vec<String> {
    // Pods have their metadata and spec in the same fields as templates.
    of(FieldRef::root(pod), false)
}

/// Returns warnings about the pod template at a path.
pub(crate) fn of_template(template: FieldRef<PodTemplateSpec>) -> Vec<String> {
    of(template, true)
}

/// Returns warnings about fractions of a byte in the resources of a claim.
pub(crate) fn of_claim_spec(spec: FieldRef<PersistentVolumeClaimSpec>) -> Vec<String> {
    let resources = spec.at(PersistentVolumeClaimSpec::RESOURCES);
    let lists = [VolumeResourceRequirements::REQUESTS, VolumeResourceRequirements::LIMITS].into_iter();
    lists.filter_map(|list| fraction(resources.at(list).key("storage"))).collect()
}

fn of(holder: FieldRef<PodTemplateSpec>, is_template: bool) -> Vec<String> {
    let spec = holder.at(PodTemplateSpec::SPEC);
    let subject = Subject { spec, metadata: holder.at(PodTemplateSpec::METADATA) };
    let mut warnings = Vec::new();
    subject.node_labels(&mut warnings);
    subject.annotations(&mut warnings);
    subject.volumes(&mut warnings);
    warnings.extend(paths::overlaps(spec.at(PodSpec::VOLUMES)));
    subject.repetitions(&mut warnings);
    subject.containers(is_template, &mut warnings);
    ports::warnings(spec, &mut warnings);
    let grace = spec.at(PodSpec::TERMINATION_GRACE_PERIOD_SECONDS);
    if grace.int_or_zero() < 0 {
        let at = grace.path();
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    subject.affinity(&mut warnings);
    subject.addresses(&mut warnings);
    warnings
}

/// The pod or template that is checked.
struct Subject<'a> {
    spec: FieldRef<'a, 'a, PodSpec>,
    metadata: FieldRef<'a, 'a, ObjectMeta>,
}

impl Subject<'_> {
    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.at(ObjectMeta::ANNOTATIONS).key(name).get_str()
    }

    fn annotation_path(&self, name: &str) -> FieldPath {
        self.metadata.at(ObjectMeta::ANNOTATIONS).key(name).path()
    }

    fn node_labels(&self, warnings: &mut Vec<String>) {
        for (key, label) in self.spec.at(PodSpec::NODE_SELECTOR).entries() {
            if let Some(message) = deprecated_label(key) {
                warnings.push(format!("{}: {message}", label.path()));
            }
        }
        let affinity = self.spec.at(PodSpec::AFFINITY);
        let affinity = affinity.at(Affinity::NODE_AFFINITY);
        let required = affinity.at(NodeAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
        for term in required.at(NodeSelector::NODE_SELECTOR_TERMS).items() {
            warnings.extend(deprecated_labels_in_term(term.value(), &term.path()));
        }
        for term in affinity.at(NodeAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).items() {
            preference(term.at(PreferredSchedulingTerm::PREFERENCE), warnings);
        }
        for constraint in self.spec.at(PodSpec::TOPOLOGY_SPREAD_CONSTRAINTS).items() {
            deprecated_key(constraint.at(TopologySpreadConstraint::TOPOLOGY_KEY), warnings);
            null_selector(constraint.at(TopologySpreadConstraint::LABEL_SELECTOR), warnings);
        }
    }

    fn annotations(&self, warnings: &mut Vec<String>) {
        for (name, message) in ANNOTATIONS {
            if self.annotation(name).is_some() {
                warnings.push(format!("{}: {message}", self.annotation_path(name)));
            }
        }
    }

    fn volumes(&self, warnings: &mut Vec<String>) {
        for volume in self.spec.at(PodSpec::VOLUMES).items() {
            macro_rules! gone {
                ($field:ident $(as $shown:literal)?, $message:literal) => {
                    let source = volume.at(Volume::$field)$(.reported_as($shown))?;
                    if source.is_set() {
                        warnings.push(format!("{}: {}", source.path(), $message));
                    }
                };
            }
            gone!(PHOTON_PERSISTENT_DISK, "deprecated in v1.11, non-functional in v1.16+");
            gone!(GIT_REPO, "deprecated in v1.11, and disabled by default in v1.33+");
            gone!(SCALE_IO, "deprecated in v1.16, non-functional in v1.22+");
            gone!(FLOCKER, "deprecated in v1.22, non-functional in v1.25+");
            gone!(STORAGEOS as "storageOS", "deprecated in v1.22, non-functional in v1.25+");
            gone!(QUOBYTE, "deprecated in v1.22, non-functional in v1.25+");
            gone!(GLUSTERFS, "deprecated in v1.25, non-functional in v1.26+");
            let ephemeral = volume.at(Volume::EPHEMERAL);
            let template = ephemeral.at(EphemeralVolumeSource::VOLUME_CLAIM_TEMPLATE);
            if template.is_set() {
                let spec = template.at(PersistentVolumeClaimTemplate::SPEC);
                warnings.extend(of_claim_spec(spec));
            }
            gone!(CEPHFS, "deprecated in v1.28, non-functional in v1.31+");
            gone!(RBD, "deprecated in v1.28, non-functional in v1.31+");
        }
    }

    /// Warns about duplicate keys in lists that are merged by key, and about fractions of a byte.
    fn repetitions(&self, warnings: &mut Vec<String>) {
        let secrets = self.spec.at(PodSpec::IMAGE_PULL_SECRETS);
        duplicates(self.spec.at(PodSpec::HOST_ALIASES), HostAlias::IP, warnings);
        duplicates(secrets, LocalObjectReference::NAME, warnings);
        for secret in secrets.items() {
            let name = secret.at(LocalObjectReference::NAME);
            if name.is_empty() {
                warnings.push(format!("{}: invalid empty name \"\"", name.path()));
            }
        }
        for name in ["memory", "ephemeral-storage"] {
            warnings.extend(fraction(self.spec.at(PodSpec::OVERHEAD).key(name)));
        }
    }

    fn containers(&self, is_template: bool, warnings: &mut Vec<String>) {
        let unused = |field: &str| format!("non-functional in v1.27+; use the \"{field}\" field instead");
        let seccomp = PodSecurityContext::SECCOMP_PROFILE;
        let context = self.spec.at(PodSpec::SECURITY_CONTEXT);
        if !context.at(seccomp).is_set() && self.annotation(SECCOMP_POD).is_some() {
            warnings.push(format!("{}: {}", self.annotation_path(SECCOMP_POD), unused(seccomp.name())));
        }
        for container in all_containers(&self.spec).iter() {
            let name = format!("{SECCOMP_CONTAINER}{}", container.at(Container::NAME).str());
            let context = container.at(Container::SECURITY_CONTEXT);
            if !context.at(SecurityContext::SECCOMP_PROFILE).is_set() && self.annotation(&name).is_some() {
                warnings.push(format!("{}: {}", self.annotation_path(&name), unused(seccomp.name())));
            }
            // The annotations of a pod have been copied to fields before its warnings are computed.
            if is_template {
                warnings.extend(app_armor::template_warning(self.spec, container, self.metadata));
            }
            let resources = container.at(Container::RESOURCES);
            for name in ["memory", "ephemeral-storage"] {
                for list in [ResourceRequirements::LIMITS, ResourceRequirements::REQUESTS] {
                    warnings.extend(fraction(resources.at(list).key(name)));
                }
            }
            environment(container.at(Container::ENV), warnings);
        }
    }

    fn affinity(&self, warnings: &mut Vec<String>) {
        let affinity = self.spec.at(PodSpec::AFFINITY);
        // Both have the same fields.
        for rules in [affinity.at(Affinity::POD_AFFINITY), affinity.at(Affinity::POD_ANTI_AFFINITY).cast()] {
            for term in rules.at(PodAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).items() {
                null_selector(term.at(PodAffinityTerm::LABEL_SELECTOR), warnings);
            }
            for weighted in rules.at(PodAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).items() {
                let term = weighted.at(WeightedPodAffinityTerm::POD_AFFINITY_TERM);
                null_selector(term.at(PodAffinityTerm::LABEL_SELECTOR), warnings);
            }
        }
    }

    fn addresses(&self, warnings: &mut Vec<String>) {
        let config = self.spec.at(PodSpec::DNS_CONFIG);
        for server in config.at(PodDNSConfig::NAMESERVERS).items() {
            warnings.extend(ip::ip_warnings(&server, server.str()));
        }
        for alias in self.spec.at(PodSpec::HOST_ALIASES).items() {
            let address = alias.at(HostAlias::IP);
            warnings.extend(ip::ip_warnings(&address, address.str()));
        }
    }
}

/// Warns about invalid label values in a preferred node term, which match nothing.
fn preference(term: FieldRef<NodeSelectorTerm>, warnings: &mut Vec<String>) {
    for expression in term.at(NodeSelectorTerm::MATCH_EXPRESSIONS).items() {
        deprecated_key(expression.at(NodeSelectorRequirement::KEY), warnings);
        for value in expression.at(NodeSelectorRequirement::VALUES).items() {
            let problems = names::label_value(value.str());
            warnings.extend(problems.iter().map(|why| format!("{}: {} is invalid, {why}", value.path(), value.str())));
        }
    }
}

fn deprecated_key(key: FieldRef<Str>, warnings: &mut Vec<String>) {
    if let Some(message) = deprecated_label(key.str()) {
        warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
    }
}

fn null_selector(selector: FieldRef<LabelSelector>, warnings: &mut Vec<String>) {
    if !selector.is_set() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", selector.path()));
    }
}

fn duplicates<M>(list: FieldRef<List<M>>, key: Field<M, Str>, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for item in list.items() {
        let text = item.at(key);
        if !seen.insert(text.str()) {
            warnings.push(format!("{}: duplicate {} {}", text.path(), key.name(), go_quote(text.str())));
        }
    }
}

/// Returns the warning about an amount of bytes that is not a whole number.
fn fraction(amount: FieldRef<Quantity>) -> Option<String> {
    let given = quantity(amount.value())?;
    if given.milli_value() % 1000 == 0 {
        return None;
    }
    Some(format!("{}: fractional byte value {:?} is invalid, must be an integer", amount.path(), given.to_string()))
}

/// Warns about variables that are set again without using their previous value: merging by name keeps only one of them.
fn environment(list: FieldRef<List<EnvVar>>, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for variable in list.items() {
        let (name, value) = (variable.at(EnvVar::NAME).str(), variable.at(EnvVar::VALUE).str());
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if variable.at(EnvVar::VALUE_FROM).is_set() || value == reference || !value.contains(&reference) {
            let at = variable.path();
            let name = go_quote(name);
            warnings.push(format!("{at}: hides previous definition of {name}, which may be dropped when using apply"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn warns_about_deprecated_and_invalid_pod_fields() {
        let labels = value!({"matchLabels": {"a": "b"}});
        for (spec, want) in [
            (
                value!({"nodeSelector": {"kubernetes.io/arch": "amd64"}, "volumes": [{"name": "v", "emptyDir": {}}]}),
                vec![],
            ),
            (
                value!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
                vec![
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                ],
            ),
            (
                value!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"preference": {"matchExpressions": [{"key": "beta.kubernetes.io/os", "values": ["-"]}]}}
                ]}}}),
                vec![
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ],
            ),
            (
                value!({"topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}, {"topologyKey": "x", "labelSelector": labels}]}),
                vec![
                    "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                value!({"volumes": [{"name": "a", "storageos": {}, "rbd": {}}, {"name": "b", "gitRepo": {}}]}),
                vec![
                    "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
                    "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
                    "spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                ],
            ),
            (
                value!({"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"limits": {"storage": "1500m"}}}}}}]}),
                vec![
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
            (
                value!({"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}], "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]}),
                vec![
                    "spec.hostAliases[1].ip: duplicate ip \"1.2.3.4\"",
                    "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                    "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                ],
            ),
            (
                value!({"overhead": {"memory": "1m"}, "containers": [{"name": "c", "resources": {"limits": {"ephemeral-storage": "1m"}}}]}),
                vec![
                    "spec.overhead[memory]: fractional byte value \"1m\" is invalid, must be an integer",
                    "spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value \"1m\" is invalid, must be an integer",
                ],
            ),
            (
                value!({"containers": [{"name": "c", "env": [{"name": "A", "value": "x"}, {"name": "A", "value": "$(A)y"}, {"name": "A", "value": "z"}]}]}),
                vec![
                    "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                ],
            ),
            (
                value!({"terminationGracePeriodSeconds": (-1i64)}),
                vec![
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                ],
            ),
            (
                value!({"affinity": {"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": "x"}}]
                }}}),
                vec![
                    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                value!({"dnsConfig": {"nameservers": ["010.0.0.1"]}}),
                vec![
                    "spec.dnsConfig.nameservers[0]: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
                ],
            ),
        ] {
            let pod = value!({"metadata": {"name": "p"}, "spec": spec});
            assert_eq!(of_pod(&pod), want, "{pod:?}");
        }
    }

    #[test]
    fn warns_about_deprecated_template_annotations() {
        let template = value!({
            "metadata": {"annotations": {
                "security.alpha.kubernetes.io/sysctls": "", "seccomp.security.alpha.kubernetes.io/pod": "x",
                "container.seccomp.security.alpha.kubernetes.io/c": "x",
                "container.apparmor.security.beta.kubernetes.io/c": "unconfined"
            }},
            "spec": {"containers": [{"name": "c"}]}
        });
        let want = [
            "t.metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the \"sysctls\" field instead",
            "t.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            "t.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            "t.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead",
        ];
        assert_eq!(of_template(FieldRef::located(&template, &FieldPath::new("t"))), want);
    }
}
