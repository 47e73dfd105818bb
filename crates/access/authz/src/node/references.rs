//! The objects that a pod or volume references, which the pod's node may read.

use std::collections::HashMap;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    AzureFilePersistentVolumeSource, AzureFileVolumeSource, CSIPersistentVolumeSource, CSIVolumeSource,
    CephFSPersistentVolumeSource, CephFSVolumeSource, CinderPersistentVolumeSource, CinderVolumeSource,
    ConfigMapEnvSource, ConfigMapKeySelector, ConfigMapProjection, ConfigMapVolumeSource, Container, EnvFromSource,
    EnvVar, EnvVarSource, FlexPersistentVolumeSource, FlexVolumeSource, ISCSIPersistentVolumeSource, ISCSIVolumeSource,
    LocalObjectReference, ObjectReference, PersistentVolume, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec,
    Pod, PodExtendedResourceClaimStatus, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus,
    ProjectedVolumeSource, RBDPersistentVolumeSource, RBDVolumeSource, ScaleIOPersistentVolumeSource,
    ScaleIOVolumeSource, SecretEnvSource, SecretKeySelector, SecretProjection, SecretReference, SecretVolumeSource,
    StorageOSPersistentVolumeSource, StorageOSVolumeSource, Volume, VolumeProjection,
};
use binnacle_fields::meta::v1::ObjectMeta;
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

const MIRROR: &str = "kubernetes.io/config.mirror";

/// The references of one pod, while they are collected.
#[derive(Default)]
struct References(Vec<(Referent, Text)>);

/// Returns the referenced objects in the pod's namespace, sorted and without duplicates.
pub(super) fn references_of_pod(pod: &Value) -> Vec<(Referent, Text)> {
    let pod = FieldRef::<Pod>::root(pod);
    let mut references = References::default();
    // A node creates its mirror pods itself, so they must not grant it anything.
    if pod.at(Pod::METADATA).at(ObjectMeta::ANNOTATIONS).has_key(MIRROR) {
        return references.0;
    }
    let spec = pod.at(Pod::SPEC);
    references.add(Referent::ServiceAccount, spec.at(PodSpec::SERVICE_ACCOUNT_NAME).str());
    for secret in spec.at(PodSpec::IMAGE_PULL_SECRETS).values() {
        references.add(Referent::Secret, secret.at(LocalObjectReference::NAME).str());
    }
    let ephemeral = spec.at(PodSpec::EPHEMERAL_CONTAINERS);
    let containers = spec.at(PodSpec::INIT_CONTAINERS).values().chain(spec.at(PodSpec::CONTAINERS).values());
    for container in containers.chain(ephemeral.values().map(|container| container.cast())) {
        references.add_container(container);
    }
    let pod_name = pod.at(Pod::METADATA).at(ObjectMeta::NAME).str();
    for volume in spec.at(PodSpec::VOLUMES).values() {
        references.add_volume(volume, pod_name);
    }
    references.add_claims(spec, pod.at(Pod::STATUS));
    let References(mut found) = references;
    pace(20 * found.len() as u64);
    found.sort_unstable();
    found.dedup();
    found
}

impl References {
    fn add(&mut self, referent: Referent, name: &str) {
        if !name.is_empty() {
            self.0.push((referent, Text::from(name)));
        }
    }

    fn add_container(&mut self, container: FieldRef<'_, '_, Container>) {
        for source in container.at(Container::ENV_FROM).values() {
            self.add(Referent::Secret, source.at(EnvFromSource::SECRET_REF).at(SecretEnvSource::NAME).str());
            self.add(Referent::ConfigMap, source.at(EnvFromSource::CONFIG_MAP_REF).at(ConfigMapEnvSource::NAME).str());
        }
        for variable in container.at(Container::ENV).values() {
            let source = variable.at(EnvVar::VALUE_FROM);
            self.add(Referent::Secret, source.at(EnvVarSource::SECRET_KEY_REF).at(SecretKeySelector::NAME).str());
            let config_map = source.at(EnvVarSource::CONFIG_MAP_KEY_REF);
            self.add(Referent::ConfigMap, config_map.at(ConfigMapKeySelector::NAME).str());
        }
    }

    fn add_volume(&mut self, volume: FieldRef<'_, '_, Volume>, pod_name: &str) {
        for secret in secrets_of_pod_volume(volume) {
            self.add(Referent::Secret, secret);
        }
        self.add(Referent::ConfigMap, volume.at(Volume::CONFIG_MAP).at(ConfigMapVolumeSource::NAME).str());
        for source in volume.at(Volume::PROJECTED).at(ProjectedVolumeSource::SOURCES).values() {
            self.add(Referent::Secret, source.at(VolumeProjection::SECRET).at(SecretProjection::NAME).str());
            self.add(Referent::ConfigMap, source.at(VolumeProjection::CONFIG_MAP).at(ConfigMapProjection::NAME).str());
        }
        let claim = volume.at(Volume::PERSISTENT_VOLUME_CLAIM);
        self.add(Referent::Claim, claim.at(PersistentVolumeClaimVolumeSource::CLAIM_NAME).str());
        if volume.at(Volume::EPHEMERAL).is_set() {
            self.add(Referent::Claim, &format!("{pod_name}-{}", volume.at(Volume::NAME).str()));
        }
    }

    fn add_claims(&mut self, spec: FieldRef<'_, '_, PodSpec>, status: FieldRef<'_, '_, PodStatus>) {
        let mut generated: HashMap<&str, &str> = HashMap::new();
        for claim in status.at(PodStatus::RESOURCE_CLAIM_STATUSES).values() {
            let name = claim.at(PodResourceClaimStatus::NAME).str();
            generated.entry(name).or_insert(claim.at(PodResourceClaimStatus::RESOURCE_CLAIM_NAME).str());
        }
        for claim in spec.at(PodSpec::RESOURCE_CLAIMS).values() {
            let name = match claim.at(PodResourceClaim::RESOURCE_CLAIM_NAME).str() {
                // A claim that is created from a template has its name in the pod's status.
                "" => generated.get(claim.at(PodResourceClaim::NAME).str()).copied().unwrap_or_default(),
                name => name,
            };
            self.add(Referent::ResourceClaim, name);
        }
        let extended = status.at(PodStatus::EXTENDED_RESOURCE_CLAIM_STATUS);
        self.add(Referent::ResourceClaim, extended.at(PodExtendedResourceClaimStatus::RESOURCE_CLAIM_NAME).str());
    }
}

/// Returns the names of the secrets in a volume of a pod; empty for none.
fn secrets_of_pod_volume<'v>(volume: FieldRef<'_, 'v, Volume>) -> [&'v str; 10] {
    let named = |secret: FieldRef<'_, 'v, LocalObjectReference>| secret.at(LocalObjectReference::NAME).str();
    [
        volume.at(Volume::SECRET).at(SecretVolumeSource::SECRET_NAME).str(),
        volume.at(Volume::AZURE_FILE).at(AzureFileVolumeSource::SECRET_NAME).str(),
        named(volume.at(Volume::CSI).at(CSIVolumeSource::NODE_PUBLISH_SECRET_REF)),
        named(volume.at(Volume::CEPHFS).at(CephFSVolumeSource::SECRET_REF)),
        named(volume.at(Volume::CINDER).at(CinderVolumeSource::SECRET_REF)),
        named(volume.at(Volume::FLEX_VOLUME).at(FlexVolumeSource::SECRET_REF)),
        named(volume.at(Volume::RBD).at(RBDVolumeSource::SECRET_REF)),
        named(volume.at(Volume::SCALE_IO).at(ScaleIOVolumeSource::SECRET_REF)),
        named(volume.at(Volume::ISCSI).at(ISCSIVolumeSource::SECRET_REF)),
        named(volume.at(Volume::STORAGEOS).at(StorageOSVolumeSource::SECRET_REF)),
    ]
}

/// The namespace and the name of a secret; empty if absent.
type SecretName<'v> = (&'v str, &'v str);

fn secret<'v>(reference: FieldRef<'_, 'v, SecretReference>) -> SecretName<'v> {
    (reference.at(SecretReference::NAMESPACE).str(), reference.at(SecretReference::NAME).str())
}

/// Returns the secrets that are in the namespace of the claim unless they have one, as in objects from before they
/// could.
fn secrets_by_claim<'v>(spec: FieldRef<'_, 'v, PersistentVolumeSpec>) -> [SecretName<'v>; 6] {
    let azure = spec.at(PersistentVolumeSpec::AZURE_FILE);
    [
        (
            azure.at(AzureFilePersistentVolumeSource::SECRET_NAMESPACE).str(),
            azure.at(AzureFilePersistentVolumeSource::SECRET_NAME).str(),
        ),
        secret(spec.at(PersistentVolumeSpec::CEPHFS).at(CephFSPersistentVolumeSource::SECRET_REF)),
        secret(spec.at(PersistentVolumeSpec::FLEX_VOLUME).at(FlexPersistentVolumeSource::SECRET_REF)),
        secret(spec.at(PersistentVolumeSpec::RBD).at(RBDPersistentVolumeSource::SECRET_REF)),
        secret(spec.at(PersistentVolumeSpec::SCALE_IO).at(ScaleIOPersistentVolumeSource::SECRET_REF)),
        secret(spec.at(PersistentVolumeSpec::ISCSI).at(ISCSIPersistentVolumeSource::SECRET_REF)),
    ]
}

/// Returns the secrets that have always had a namespace. Of a CSI volume these are the ones that nodes need; the others
/// are for controllers.
fn secrets_by_namespace<'v>(spec: FieldRef<'_, 'v, PersistentVolumeSpec>) -> [SecretName<'v>; 5] {
    let csi = spec.at(PersistentVolumeSpec::CSI);
    let storage_os = spec.at(PersistentVolumeSpec::STORAGEOS);
    let storage_os = storage_os.at(StorageOSPersistentVolumeSource::SECRET_REF);
    [
        secret(spec.at(PersistentVolumeSpec::CINDER).at(CinderPersistentVolumeSource::SECRET_REF)),
        (storage_os.at(ObjectReference::NAMESPACE).str(), storage_os.at(ObjectReference::NAME).str()),
        secret(csi.at(CSIPersistentVolumeSource::NODE_PUBLISH_SECRET_REF)),
        secret(csi.at(CSIPersistentVolumeSource::NODE_STAGE_SECRET_REF)),
        secret(csi.at(CSIPersistentVolumeSource::NODE_EXPAND_SECRET_REF)),
    ]
}

/// Returns the namespaces and names of the secrets that a node needs to mount a persistent volume.
pub(super) fn secrets_of_volume(volume: &Value) -> Vec<(Text, Text)> {
    let volume = FieldRef::<PersistentVolume>::root(volume);
    let spec = volume.at(PersistentVolume::SPEC);
    let claim_namespace = spec.at(PersistentVolumeSpec::CLAIM_REF).at(ObjectReference::NAMESPACE).str();
    let by_claim = secrets_by_claim(spec).map(|(namespace, name)| match namespace {
        "" => (claim_namespace, name),
        namespace => (namespace, name),
    });
    let all = by_claim.into_iter().chain(secrets_by_namespace(spec)).filter(|(_, name)| !name.is_empty());
    let mut found: Vec<(Text, Text)> = all.map(|(namespace, name)| (namespace.into(), name.into())).collect();
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
