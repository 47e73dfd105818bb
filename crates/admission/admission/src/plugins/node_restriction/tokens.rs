//! Restrictions on service account tokens: a node may only request tokens for its pods, with audiences that these pods
//! need.

use binnacle_authz::Attributes as Access;
use binnacle_fields::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use binnacle_fields::core::v1::{
    CSIVolumeSource, EphemeralVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Pod, PodSpec, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::storage::v1::{CSIDriver, CSIDriverSpec, TokenRequest as DriverToken};
use binnacle_fields::{FieldRef, Route, metadata, route};
use binnacle_meta::{Status, aggregate, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_request::Decision;

use super::pods::is_bound_to;
use super::{NodeRequest, NodeRestriction, Verdict, refuse};
use crate::lookup::LookupKind;

/// The CSI drivers that replace in-tree volumes.
const MIGRATED: [(Route<Volume>, &str); 7] = [
    (route![Volume::AWS_ELASTIC_BLOCK_STORE], "ebs.csi.aws.com"),
    (route![Volume::AZURE_DISK], "disk.csi.azure.com"),
    (route![Volume::AZURE_FILE], "file.csi.azure.com"),
    (route![Volume::CINDER], "cinder.csi.openstack.org"),
    (route![Volume::GCE_PERSISTENT_DISK], "pd.csi.storage.gke.io"),
    (route![Volume::PORTWORX_VOLUME], "pxd.portworx.com"),
    (route![Volume::VSPHERE_VOLUME], "csi.vsphere.vmware.com"),
];

impl NodeRestriction {
    pub(super) async fn token(&self, node_request: NodeRequest<'_>) -> Verdict {
        let attributes = node_request.attributes;
        if attributes.operation != Operation::Create || attributes.subresource != "token" {
            return Ok(());
        }
        let spec = FieldRef::<TokenRequest>::root(node_request.object).at(TokenRequest::SPEC).detached();
        let reference = spec.at(TokenRequestSpec::BOUND_OBJECT_REF);
        let [api_version, kind, name, uid] = [
            BoundObjectReference::API_VERSION,
            BoundObjectReference::KIND,
            BoundObjectReference::NAME,
            BoundObjectReference::UID,
        ]
        .map(|field| reference.at(field).str());
        if (api_version, kind) != ("v1", "Pod") || name.is_empty() {
            return refuse("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.cached_pod(&attributes.namespace, name).await?;
        if uid != metadata(&pod).at(ObjectMeta::UID).str() {
            return refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            ));
        }
        if !is_bound_to(&pod, node_request.node) {
            return refuse("node requested token bound to a pod scheduled on a different node");
        }
        if self.features.enabled("ServiceAccountNodeAudienceRestriction") {
            self.audience(node_request, spec, FieldRef::root(&pod)).await?;
        }
        Ok(())
    }

    /// Checks the audience of a token (KEP-4412): a volume of the pod must need it, or the node must be authorized for
    /// it.
    async fn audience(
        &self,
        node_request: NodeRequest<'_>,
        token: FieldRef<'_, '_, TokenRequestSpec>,
        pod: FieldRef<'_, '_, Pod>,
    ) -> Verdict {
        let mut audiences = token.at(TokenRequestSpec::AUDIENCES).values();
        let audience = match (audiences.next(), audiences.next()) {
            (None, _) => "",
            (Some(one), None) => one.str(),
            _ => return refuse("node may only request 0 or 1 audiences"),
        };
        let shown = go_quote(audience);
        match self.needs_audience(pod, audience).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return refuse(format!("error validating audience {shown}: {why}")),
        }
        let attributes = node_request.attributes;
        let user = &attributes.user;
        let access = Access {
            verb: "request-serviceaccounts-token-audience",
            is_resource_request: true,
            namespace: &attributes.namespace,
            api_version: "v1",
            resource: audience,
            name: &attributes.name,
            ..Access::nothing(user)
        };
        let name = &user.name;
        match self.authorizer.authorize(&access).await {
            Ok(Decision::Allow(_)) => Ok(()),
            Ok(_) => refuse(format!(
                "audience {shown} not found in pod spec volume, {name} is not authorized to request tokens for this audience"
            )),
            Err(error) => refuse(format!(
                "audience {shown} not found in pod spec volume, error authorizing {name} to request tokens for this audience: \
                 {error}"
            )),
        }
    }

    /// Returns true if a volume of the pod needs tokens for the audience.
    async fn needs_audience(&self, pod: FieldRef<'_, '_, Pod>, audience: &str) -> Result<bool, String> {
        let mut errors = Vec::new();
        for volume in pod.at(Pod::SPEC).at(PodSpec::VOLUMES).values() {
            let mut projected = volume.at(Volume::PROJECTED).at(ProjectedVolumeSource::SOURCES).values();
            if projected.any(|source| {
                let token = source.at(VolumeProjection::SERVICE_ACCOUNT_TOKEN);
                token.is_set() && token.at(ServiceAccountTokenProjection::AUDIENCE).str() == audience
            }) {
                return Ok(true);
            }
            let needs = match self.driver(pod, volume).await {
                Ok(Some(driver)) => self.driver_needs(&driver, audience).await,
                Ok(None) => Ok(false),
                Err(status) => Err(status),
            };
            match needs {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(status) => errors.push(status.message().to_owned()),
            }
        }
        if errors.is_empty() { Ok(false) } else { Err(aggregate(errors)) }
    }

    /// Returns the name of the CSI driver of a volume.
    async fn driver(
        &self,
        pod: FieldRef<'_, '_, Pod>,
        volume: FieldRef<'_, '_, Volume>,
    ) -> Result<Option<String>, Status> {
        let metadata = pod.at(Pod::METADATA);
        let claim = volume.at(Volume::PERSISTENT_VOLUME_CLAIM).at(PersistentVolumeClaimVolumeSource::CLAIM_NAME).str();
        let claim = if volume.at(Volume::EPHEMERAL).at(EphemeralVolumeSource::VOLUME_CLAIM_TEMPLATE).is_set() {
            format!("{}-{}", metadata.at(ObjectMeta::NAME).str(), volume.at(Volume::NAME).str())
        } else if !claim.is_empty() {
            claim.to_owned()
        } else {
            return Ok(driver_of(volume));
        };
        let namespace = metadata.at(ObjectMeta::NAMESPACE).str();
        let claim =
            self.cached_object(LookupKind::PersistentVolumeClaim, "persistentvolumeclaim", namespace, &claim).await?;
        let claim = FieldRef::<PersistentVolumeClaim>::root(&claim);
        let volume = claim.at(PersistentVolumeClaim::SPEC).at(PersistentVolumeClaimSpec::VOLUME_NAME).str();
        let volume = self.cached_object(LookupKind::PersistentVolume, "persistentvolume", "", volume).await?;
        // The spec has the same volume sources as a pod's volume, as far as the driver is concerned.
        Ok(driver_of(FieldRef::<PersistentVolume>::root(&volume).at(PersistentVolume::SPEC).cast()))
    }

    async fn driver_needs(&self, driver: &str, audience: &str) -> Result<bool, Status> {
        let driver = self.cached_object(LookupKind::CsiDriver, "csidriver", "", driver).await?;
        let spec = FieldRef::<CSIDriver>::root(&driver).at(CSIDriver::SPEC).detached();
        let mut requests = spec.at(CSIDriverSpec::TOKEN_REQUESTS).values();
        Ok(requests.any(|request| request.at(DriverToken::AUDIENCE).str() == audience))
    }
}

fn driver_of(volume: FieldRef<Volume>) -> Option<String> {
    let named = volume.at(Volume::CSI).at(CSIVolumeSource::DRIVER).str();
    let migrated = || MIGRATED.into_iter().find(|(source, _)| !volume.value_at(*source).is_null());
    if named.is_empty() { migrated().map(|(_, driver)| driver.to_owned()) } else { Some(named.to_owned()) }
}
