//! Warnings about pods and pod templates: fields that are deprecated, ignored, or probably not what was intended.

mod paths;
mod ports;

use std::collections::{BTreeMap, BTreeSet};

use binnacle_meta::FieldPath;
use binnacle_schema::Value;
use binnacle_validation::{ip, names};

use super::app_armor;
use super::validation::containers::all;
use crate::node::{deprecated_label, deprecated_labels_in_term};
use crate::tree_names::member;
use binnacle_validation::pod_resources::quantity;

/// The limit on comparisons of an item with similar ones, and on the number of warnings of a kind.
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

/// Volume sources of removed drivers: the field, its name in kube-apiserver's messages, and the warning.
const VOLUMES_BEFORE_EPHEMERAL: [(&str, &str, &str); 7] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];
const VOLUMES_AFTER_EPHEMERAL: [(&str, &str, &str); 2] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Returns warnings about a pod.
pub(crate) fn of_pod(pod: &Value) -> Vec<String> {
    of(pod, &FieldPath::root(), false)
}

/// Returns warnings about the pod template at a path.
pub(crate) fn of_template(template: &Value, path: &FieldPath) -> Vec<String> {
    of(template, path, true)
}

/// Returns warnings about fractions of a byte in the resources of a claim.
pub(crate) fn of_claim_spec(spec: &Value, path: &FieldPath) -> Vec<String> {
    let lists = ["requests", "limits"].iter();
    lists.filter_map(|list| fraction(spec, &["resources", list], "storage", path)).collect()
}

fn of(holder: &Value, path: &FieldPath, is_template: bool) -> Vec<String> {
    let null = Value::Null;
    let spec = holder.get("spec").unwrap_or(&null);
    let look = Look { spec, metadata: holder.get("metadata").unwrap_or(&null), path, at: path.child("spec") };
    let mut warnings = Vec::new();
    look.node_labels(&mut warnings);
    look.annotations(&mut warnings);
    look.volumes(&mut warnings);
    warnings.extend(paths::overlaps(spec.list_at(&["volumes"])));
    look.repetitions(&mut warnings);
    look.containers(is_template, &mut warnings);
    ports::warnings(spec, &look.at, &mut warnings);
    if spec.int_at(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let at = look.at.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    look.affinity(&mut warnings);
    look.addresses(&mut warnings);
    warnings
}

/// The pod or template that is checked.
struct Look<'a> {
    spec: &'a Value,
    metadata: &'a Value,
    /// The path of the pod or template, and that of its spec.
    path: &'a FieldPath,
    at: FieldPath,
}

impl Look<'_> {
    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.at(&["annotations", name]).and_then(Value::as_str)
    }

    fn annotation_path(&self, name: &str) -> FieldPath {
        self.path.child("metadata").child("annotations").key(name)
    }

    fn node_labels(&self, warnings: &mut Vec<String>) {
        for key in self.spec.object_at(&["nodeSelector"]).into_iter().flat_map(|labels| labels.keys()) {
            if let Some(message) = deprecated_label(key) {
                warnings.push(format!("{}: {message}", self.at.child("nodeSelector").key(key)));
            }
        }
        let affinity = self.spec.at(&["affinity", "nodeAffinity"]).unwrap_or(&Value::Null);
        let at = self.at.child("affinity").child("nodeAffinity");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.list_at(&[required, "nodeSelectorTerms"]).iter().enumerate() {
            warnings.extend(deprecated_labels_in_term(term, &at.child(required).child("nodeSelectorTerms").index(i)));
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.list_at(&[preferred]).iter().enumerate() {
            let at = at.child(preferred).index(i).child("preference");
            preference(term.get("preference").unwrap_or(&Value::Null), &at, warnings);
        }
        let at = self.at.child("topologySpreadConstraints");
        for (i, constraint) in self.spec.list_at(&["topologySpreadConstraints"]).iter().enumerate() {
            let key = constraint.str_at(&["topologyKey"]);
            if let Some(message) = deprecated_label(key) {
                warnings.push(format!("{}: {key} is {message}", at.index(i).child("topologyKey")));
            }
            null_selector(constraint, &at.index(i), warnings);
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
        for (i, volume) in self.spec.list_at(&["volumes"]).iter().enumerate() {
            let at = self.at.child("volumes").index(i);
            let gone = |sources: &[(&str, &str, &str)]| -> Vec<String> {
                let given = sources.iter().filter(|(field, ..)| member(volume, field).is_some());
                given.map(|(_, shown, message)| format!("{}: {message}", at.child(shown))).collect()
            };
            warnings.extend(gone(&VOLUMES_BEFORE_EPHEMERAL));
            if let Some(template) = volume.at(&["ephemeral", "volumeClaimTemplate"]).filter(|t| !t.is_null()) {
                let at = at.child("ephemeral").child("volumeClaimTemplate").child("spec");
                warnings.extend(of_claim_spec(template.get("spec").unwrap_or(&Value::Null), &at));
            }
            warnings.extend(gone(&VOLUMES_AFTER_EPHEMERAL));
        }
    }

    /// Warns about duplicate keys in lists that are merged by key, and about fractions of a byte.
    fn repetitions(&self, warnings: &mut Vec<String>) {
        for (list, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
            let mut seen = BTreeSet::new();
            for (i, item) in self.spec.list_at(&[list]).iter().enumerate() {
                let value = item.str_at(&[key]);
                if !seen.insert(value) {
                    warnings.push(format!("{}: duplicate {what} {value:?}", self.at.child(list).index(i).child(key)));
                }
            }
        }
        for (i, secret) in self.spec.list_at(&["imagePullSecrets"]).iter().enumerate() {
            if secret.str_at(&["name"]).is_empty() {
                let at = self.at.child("imagePullSecrets").index(i).child("name");
                warnings.push(format!("{at}: invalid empty name \"\""));
            }
        }
        for name in ["memory", "ephemeral-storage"] {
            warnings.extend(fraction(self.spec, &["overhead"], name, &self.at));
        }
    }

    fn containers(&self, is_template: bool, warnings: &mut Vec<String>) {
        let unused = |field: &str| format!("non-functional in v1.27+; use the \"{field}\" field instead");
        let has_seccomp =
            |holder: &Value| holder.at(&["securityContext", "seccompProfile"]).is_some_and(|p| !p.is_null());
        if !has_seccomp(self.spec) && self.annotation(SECCOMP_POD).is_some() {
            warnings.push(format!("{}: {}", self.annotation_path(SECCOMP_POD), unused("seccompProfile")));
        }
        for (container, at) in all(self.spec, &self.at) {
            let name = format!("{SECCOMP_CONTAINER}{}", container.str_at(&["name"]));
            if !has_seccomp(container) && self.annotation(&name).is_some() {
                warnings.push(format!("{}: {}", self.annotation_path(&name), unused("seccompProfile")));
            }
            // A pod's annotations have become fields before its warnings are made.
            if is_template {
                warnings.extend(app_armor::template_warning(self.spec, container, self.metadata, self.path));
            }
            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    warnings.extend(fraction(container, &["resources", list], name, &at));
                }
            }
            environment(container, &at, warnings);
        }
    }

    fn affinity(&self, warnings: &mut Vec<String>) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = self.spec.at(&["affinity", kind]).unwrap_or(&Value::Null);
            let at = self.at.child("affinity").child(kind);
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            for (i, term) in affinity.list_at(&[required]).iter().enumerate() {
                null_selector(term, &at.child(required).index(i), warnings);
            }
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (i, weighted) in affinity.list_at(&[preferred]).iter().enumerate() {
                let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
                null_selector(term, &at.child(preferred).index(i).child("podAffinityTerm"), warnings);
            }
        }
    }

    fn addresses(&self, warnings: &mut Vec<String>) {
        let at = self.at.child("dnsConfig").child("nameservers");
        let servers = self.spec.list_at(&["dnsConfig", "nameservers"]).iter().filter_map(Value::as_str).enumerate();
        warnings.extend(servers.filter_map(|(i, server)| ip::ip_warnings(&at.index(i), server)));
        let at = self.at.child("hostAliases");
        let aliases = self.spec.list_at(&["hostAliases"]).iter().enumerate();
        warnings
            .extend(aliases.filter_map(|(i, alias)| ip::ip_warnings(&at.index(i).child("ip"), alias.str_at(&["ip"]))));
    }
}

/// Warns about invalid label values in a preferred node term, which match nothing.
fn preference(term: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (i, expression) in term.list_at(&["matchExpressions"]).iter().enumerate() {
        let at = path.child("matchExpressions").index(i);
        let key = expression.str_at(&["key"]);
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("key")));
        }
        for (j, value) in expression.list_at(&["values"]).iter().filter_map(Value::as_str).enumerate() {
            let at = at.child("values").index(j);
            warnings.extend(names::label_value(value).iter().map(|why| format!("{at}: {value} is invalid, {why}")));
        }
    }
}

fn null_selector(holder: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    if member(holder, "labelSelector").is_none() {
        let at = path.child("labelSelector");
        warnings.push(format!("{at}: a null labelSelector results in matching no pod"));
    }
}

/// Returns the warning about an amount of bytes that is not a whole number.
fn fraction(holder: &Value, list: &[&str], name: &str, path: &FieldPath) -> Option<String> {
    let amount = holder.at(list).and_then(|list| list.get(name)).and_then(quantity)?;
    if amount.milli_value() % 1000 == 0 {
        return None;
    }
    let at = list.iter().fold(path.clone(), |path, name| path.child(name)).key(name);
    Some(format!("{at}: fractional byte value {:?} is invalid, must be an integer", amount.to_string()))
}

/// Warns about variables that are set again without using their previous value: merging by name keeps only one of them.
fn environment(container: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for (i, variable) in container.list_at(&["env"]).iter().enumerate() {
        let (name, value) = (variable.str_at(&["name"]), variable.str_at(&["value"]));
        if seen.insert(name, ()).is_none() {
            continue;
        }
        let reference = format!("$({name})");
        let hides = member(variable, "valueFrom").is_some() || value == reference || !value.contains(&reference);
        if hides {
            let at = path.child("env").index(i);
            warnings
                .push(format!("{at}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn pods() {
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
    fn annotations_of_templates() {
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
        assert_eq!(of_template(&template, &FieldPath::new("t")), want);
    }
}
