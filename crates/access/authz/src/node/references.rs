//! The objects that a pod or volume references, which the pod's node may read.

use std::collections::HashMap;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_work::pace;

/// The kinds of namespaced objects that pods reference by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Referent {
    ConfigMap,
    Secret,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

impl Referent {
    pub(super) const COUNT: usize = 5;
}

/// Volume sources with a `secretRef`.
const SECRET_REF_SOURCES: [&str; 7] = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
/// The secrets of a CSI volume that nodes need; the other ones are for controllers.
const CSI_NODE_SECRETS: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the referenced objects in the pod's namespace, sorted and without duplicates.
pub(super) fn references_of_pod(pod: &Value) -> Vec<(Referent, Text)> {
    let mut found = Vec::new();
    // A node creates its mirror pods itself, so they must not grant it anything.
    if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
        return found;
    }
    let mut add = |referent, name: &str| {
        if !name.is_empty() {
            found.push((referent, Text::from(name)));
        }
    };
    let Some(spec) = pod.get("spec") else { return found };
    add(Referent::ServiceAccount, spec.str_at(&["serviceAccountName"]));
    for secret in spec.list_at(&["imagePullSecrets"]) {
        add(Referent::Secret, secret.str_at(&["name"]));
    }
    for member in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.list_at(&[member]) {
            for source in container.list_at(&["envFrom"]) {
                add(Referent::Secret, source.str_at(&["secretRef", "name"]));
                add(Referent::ConfigMap, source.str_at(&["configMapRef", "name"]));
            }
            for variable in container.list_at(&["env"]) {
                add(Referent::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
                add(Referent::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
            }
        }
    }
    let pod_name = pod.str_at(&["metadata", "name"]);
    for volume in spec.list_at(&["volumes"]) {
        add(Referent::Secret, volume.str_at(&["secret", "secretName"]));
        add(Referent::Secret, volume.str_at(&["azureFile", "secretName"]));
        add(Referent::Secret, volume.str_at(&["csi", "nodePublishSecretRef", "name"]));
        for source in SECRET_REF_SOURCES {
            add(Referent::Secret, volume.str_at(&[source, "secretRef", "name"]));
        }
        add(Referent::ConfigMap, volume.str_at(&["configMap", "name"]));
        for source in volume.list_at(&["projected", "sources"]) {
            add(Referent::Secret, source.str_at(&["secret", "name"]));
            add(Referent::ConfigMap, source.str_at(&["configMap", "name"]));
        }
        add(Referent::Claim, volume.str_at(&["persistentVolumeClaim", "claimName"]));
        if volume.get("ephemeral").is_some_and(|source| !source.is_null()) {
            add(Referent::Claim, &format!("{pod_name}-{}", volume.str_at(&["name"])));
        }
    }
    let status = pod.get("status").unwrap_or(&Value::Null);
    let mut generated: HashMap<&str, &str> = HashMap::new();
    for claim in status.list_at(&["resourceClaimStatuses"]) {
        generated.entry(claim.str_at(&["name"])).or_insert(claim.str_at(&["resourceClaimName"]));
    }
    for claim in spec.list_at(&["resourceClaims"]) {
        let name = match claim.str_at(&["resourceClaimName"]) {
            // A claim that is created from a template has its name in the pod's status.
            "" => generated.get(claim.str_at(&["name"])).copied().unwrap_or_default(),
            name => name,
        };
        add(Referent::ResourceClaim, name);
    }
    add(Referent::ResourceClaim, status.str_at(&["extendedResourceClaimStatus", "resourceClaimName"]));
    pace(20 * found.len() as u64);
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the namespaces and names of the secrets that a node needs to mount a persistent volume.
pub(super) fn secrets_of_volume(volume: &Value) -> Vec<(Text, Text)> {
    let Some(spec) = volume.get("spec") else { return Vec::new() };
    // In old objects without a namespace, the secret is in that of the claim.
    let claim_namespace = spec.str_at(&["claimRef", "namespace"]);
    let mut found = Vec::new();
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            found.push((Text::from(namespace), Text::from(name)));
        }
    };
    let or_claim_namespace = |namespace| if str::is_empty(namespace) { claim_namespace } else { namespace };
    let azure = spec.str_at(&["azureFile", "secretNamespace"]);
    add(or_claim_namespace(azure), spec.str_at(&["azureFile", "secretName"]));
    for source in SECRET_REF_SOURCES {
        let namespace = spec.str_at(&[source, "secretRef", "namespace"]);
        // These two have always had a namespace.
        let namespace =
            if matches!(source, "cinder" | "storageos") { namespace } else { or_claim_namespace(namespace) };
        add(namespace, spec.str_at(&[source, "secretRef", "name"]));
    }
    for secret in CSI_NODE_SECRETS {
        add(spec.str_at(&["csi", secret, "namespace"]), spec.str_at(&["csi", secret, "name"]));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn finds_all_references_of_a_pod() {
        let pod = value!({
            "metadata": {"name": "p"},
            "spec": {
                "serviceAccountName": "sa",
                "imagePullSecrets": [{"name": "pull"}, {"name": ""}, {}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "s-env"}}, {"configMapRef": {"name": "c-env"}}]}],
                "containers": [{"env": [
                    {"valueFrom": {"secretKeyRef": {"name": "s-key"}}}, {"valueFrom": {"configMapKeyRef": {"name": "c-key"}}},
                    {"value": "x"}
                ]}],
                "ephemeralContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s-debug"}}}]}],
                "volumes": [
                    {"secret": {"secretName": "s-vol"}}, {"configMap": {"name": "c-vol"}},
                    {"projected": {"sources": [{"secret": {"name": "s-proj"}}, {"configMap": {"name": "c-proj"}}]}},
                    {"azureFile": {"secretName": "s-azure"}}, {"cephfs": {"secretRef": {"name": "s-ceph"}}},
                    {"csi": {"nodePublishSecretRef": {"name": "s-csi"}}},
                    {"persistentVolumeClaim": {"claimName": "claim"}}, {"name": "scratch", "ephemeral": {}},
                    {"emptyDir": {}}
                ],
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "rc"}, {"name": "b", "resourceClaimTemplateName": "t"},
                    {"name": "c", "resourceClaimTemplateName": "t"}
                ]
            },
            "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "rc-b"}, {"name": "c"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "rc-x"}}
        });
        let names = |referent| -> Vec<String> {
            let found = references_of_pod(&pod).into_iter().filter(|(kind, _)| *kind == referent);
            found.map(|(_, name)| name.to_string()).collect()
        };
        assert_eq!(
            names(Referent::Secret),
            ["pull", "s-azure", "s-ceph", "s-csi", "s-debug", "s-env", "s-key", "s-proj", "s-vol"]
        );
        assert_eq!(names(Referent::ConfigMap), ["c-env", "c-key", "c-proj", "c-vol"]);
        assert_eq!(names(Referent::Claim), ["claim", "p-scratch"]);
        assert_eq!(names(Referent::ServiceAccount), ["sa"]);
        assert_eq!(names(Referent::ResourceClaim), ["rc", "rc-b", "rc-x"]);

        let mut mirror = pod.clone();
        mirror.make_at(&["metadata", "annotations"]).insert(MIRROR, "");
        assert!(references_of_pod(&mirror).is_empty());
    }

    #[test]
    fn finds_secrets_of_a_volume() {
        for (source, want) in [
            (value!({"azureFile": {"secretName": "s"}}), Some(("claims", "s"))),
            (value!({"azureFile": {"secretName": "s", "secretNamespace": "n"}}), Some(("n", "s"))),
            (value!({"rbd": {"secretRef": {"name": "s"}}}), Some(("claims", "s"))),
            (value!({"rbd": {"secretRef": {"name": "s", "namespace": "n"}}}), Some(("n", "s"))),
            (value!({"cinder": {"secretRef": {"name": "s"}}}), Some(("", "s"))),
            (value!({"csi": {"nodeStageSecretRef": {"name": "s", "namespace": "n"}}}), Some(("n", "s"))),
            (value!({"csi": {"controllerPublishSecretRef": {"name": "s", "namespace": "n"}}}), None),
            (value!({"hostPath": {"path": "/"}}), None),
        ] {
            let mut spec = source.clone();
            spec.make_at(&["claimRef"]).insert("namespace", "claims");
            let found = secrets_of_volume(&value!({"spec": spec}));
            let want: Vec<(Text, Text)> = want.into_iter().map(|(n, s)| (n.into(), s.into())).collect();
            assert_eq!(found, want, "{source:?}");
        }
    }
}
