//! The secrets that a pod refers to, limited to those of its service account.

use binnacle_schema::Value;

/// The container lists, with the names of their containers in refusals.
const CONTAINERS: [(&str, &str); 2] = [("initContainers", "init container"), ("containers", "container")];

/// The secrets of volumes: the source, and the path to the secret's name.
const VOLUME_SECRETS: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// Returns true if a pod refers to any secret.
pub(super) fn any(pod: &Value) -> bool {
    let list = |member| pod.list_at(&["spec", member]);
    let in_containers = ["initContainers", "containers", "ephemeralContainers"].into_iter().any(|member| {
        list(member).iter().any(|container| {
            let from = container.list_at(&["envFrom"]).iter().any(|from| from.get("secretRef").is_some());
            from || container.list_at(&["env"]).iter().any(|env| env.at(&["valueFrom", "secretKeyRef"]).is_some())
        })
    });
    let in_volumes = list("volumes").iter().any(|volume| {
        let projected = volume.list_at(&["projected", "sources"]).iter().any(|source| source.get("secret").is_some());
        projected
            || VOLUME_SECRETS.iter().any(|(source, path)| {
                volume.get(source).is_some_and(|source| source.at(path).is_some_and(|name| !name.is_null()))
            })
    });
    in_containers || in_volumes || !list("imagePullSecrets").is_empty()
}

/// Refuses secrets that the account does not list.
pub(super) fn limit(account: &Value, pod: &Value) -> Result<(), String> {
    let name = account.str_at(&["metadata", "name"]);
    for volume in pod.list_at(&["spec", "volumes"]) {
        let Some(secret) = volume.at(&["secret"]).filter(|secret| !secret.is_null()) else { continue };
        let secret = secret.str_at(&["secretName"]);
        if !lists(account, "secrets", secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            ));
        }
    }
    for (member, what) in CONTAINERS {
        limit_containers(account, pod, member, what)?;
    }
    for (i, secret) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]);
        if !lists(account, "imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// [`limit`] for the ephemeral containers, which an update may add.
pub(super) fn limit_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    limit_containers(account, pod, "ephemeralContainers", "ephemeral container")
}

fn limit_containers(account: &Value, pod: &Value, member: &str, what: &str) -> Result<(), String> {
    let name = account.str_at(&["metadata", "name"]);
    for container in pod.list_at(&["spec", member]) {
        let container_name = container.str_at(&["name"]);
        let refused = |how: &str, secret: &str| {
            format!(
                "{what} {container_name} with {how} referencing secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            )
        };
        for env in container.list_at(&["env"]) {
            let Some(secret) = env.at(&["valueFrom", "secretKeyRef"]).filter(|secret| !secret.is_null()) else {
                continue;
            };
            let secret = secret.str_at(&["name"]);
            if !lists(account, "secrets", secret) {
                return Err(refused(&format!("envVar {}", env.str_at(&["name"])), secret));
            }
        }
        for from in container.list_at(&["envFrom"]) {
            let Some(secret) = from.get("secretRef").filter(|secret| !secret.is_null()) else { continue };
            let secret = secret.str_at(&["name"]);
            if !lists(account, "secrets", secret) {
                return Err(refused("envFrom", secret));
            }
        }
    }
    Ok(())
}

fn lists(account: &Value, member: &str, secret: &str) -> bool {
    account.list_at(&[member]).iter().any(|listed| listed.str_at(&["name"]) == secret)
}
