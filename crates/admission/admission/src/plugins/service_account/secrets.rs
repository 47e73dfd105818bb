//! Restricts the secrets that a pod references to those of its service account.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, LocalObjectReference, ObjectReference, PodSpec, SecretEnvSource,
    SecretKeySelector, SecretVolumeSource, ServiceAccount as Account, Volume, VolumeProjection,
};
use binnacle_fields::meta::v1::ObjectMeta;

use super::projections;
use crate::plugins::pod::{VOLUME_SECRETS, all_containers, ephemeral_containers};

/// Returns true if a pod references any secret.
pub(super) fn any(spec: FieldRef<PodSpec>) -> bool {
    let in_containers = all_containers(spec).any(|container| {
        container.at(Container::ENV_FROM).values().any(|from| from.at(EnvFromSource::SECRET_REF).is_set())
            || container.at(Container::ENV).values().any(|env| secret_of(env).is_set())
    });
    let in_volumes = spec.at(PodSpec::VOLUMES).values().any(|volume| {
        projections(volume).any(|source| source.at(VolumeProjection::SECRET).is_set())
            || VOLUME_SECRETS.iter().any(|route| !volume.value_at(*route).is_null())
    });
    in_containers || in_volumes || !spec.at(PodSpec::IMAGE_PULL_SECRETS).is_empty()
}

/// Rejects references to secrets that the account does not list.
pub(super) fn limit(account: FieldRef<Account>, spec: FieldRef<PodSpec>) -> Result<(), String> {
    let name = name(account);
    for volume in spec.at(PodSpec::VOLUMES).values() {
        let Some(secret) = volume.at(Volume::SECRET).set() else { continue };
        let secret = secret.at(SecretVolumeSource::SECRET_NAME).str();
        if !lists(account, secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            ));
        }
    }
    limit_containers(account, spec.at(PodSpec::INIT_CONTAINERS).values(), "init container")?;
    limit_containers(account, spec.at(PodSpec::CONTAINERS).values(), "container")?;
    for (i, secret) in spec.at(PodSpec::IMAGE_PULL_SECRETS).values().enumerate() {
        let secret = secret.at(LocalObjectReference::NAME).str();
        let mut listed = account.at(Account::IMAGE_PULL_SECRETS).values();
        if !listed.any(|listed| listed.at(LocalObjectReference::NAME).str() == secret) {
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Like [`limit`], for the ephemeral containers, which may be added by updates.
pub(super) fn limit_ephemeral(account: FieldRef<Account>, spec: FieldRef<PodSpec>) -> Result<(), String> {
    limit_containers(account, ephemeral_containers(spec), "ephemeral container")
}

fn limit_containers<'v>(
    account: FieldRef<Account>,
    containers: impl Iterator<Item = FieldRef<'static, 'v, Container>>,
    kind: &str,
) -> Result<(), String> {
    let name = name(account);
    for container in containers {
        let container_name = container.at(Container::NAME).str();
        let refused = |source: &str, secret: &str| {
            format!(
                "{kind} {container_name} with {source} referencing secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            )
        };
        for env in container.at(Container::ENV).values() {
            let Some(secret) = secret_of(env).set() else { continue };
            let secret = secret.at(SecretKeySelector::NAME).str();
            if !lists(account, secret) {
                return Err(refused(&format!("envVar {}", env.at(EnvVar::NAME).str()), secret));
            }
        }
        for from in container.at(Container::ENV_FROM).values() {
            let Some(secret) = from.at(EnvFromSource::SECRET_REF).set() else { continue };
            let secret = secret.at(SecretEnvSource::NAME).str();
            if !lists(account, secret) {
                return Err(refused("envFrom", secret));
            }
        }
    }
    Ok(())
}

fn name<'v>(account: FieldRef<'_, 'v, Account>) -> &'v str {
    account.at(Account::METADATA).at(ObjectMeta::NAME).str()
}

fn lists(account: FieldRef<Account>, secret: &str) -> bool {
    account.at(Account::SECRETS).values().any(|listed| listed.at(ObjectReference::NAME).str() == secret)
}

fn secret_of<'v>(env: FieldRef<'_, 'v, EnvVar>) -> FieldRef<'static, 'v, SecretKeySelector> {
    env.at(EnvVar::VALUE_FROM).at(EnvVarSource::SECRET_KEY_REF).detached()
}
