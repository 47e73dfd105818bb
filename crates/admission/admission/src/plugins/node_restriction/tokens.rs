//! Restrictions of service account tokens: a node requests tokens for its pods, with audiences that these pods need.

use binnacle_authz::Attributes as Access;
use binnacle_meta::{Status, aggregate, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_request::Decision;
use binnacle_schema::Value;

use super::pods::is_bound_to;
use super::{NodeRequest, NodeRestriction, Verdict, no};
use crate::lookup::LookupKind;

/// The CSI drivers that replace in-tree volumes, by the member of the volume.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl NodeRestriction {
    pub(super) async fn token(&self, asked: NodeRequest<'_>) -> Verdict {
        let attributes = asked.attributes;
        if attributes.operation != Operation::Create || attributes.subresource != "token" {
            return Ok(());
        }
        let bound = |member: &str| asked.object.str_at(&["spec", "boundObjectRef", member]);
        if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || bound("name").is_empty() {
            return no("node requested token not bound to a pod");
        }
        let uid = bound("uid");
        if uid.is_empty() {
            return no("node requested token with a pod binding without a uid");
        }
        let pod = self.known_pod(&attributes.namespace, bound("name")).await?;
        if uid != pod.str_at(&["metadata", "uid"]) {
            return no(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            ));
        }
        if !is_bound_to(&pod, asked.node) {
            return no("node requested token bound to a pod scheduled on a different node");
        }
        if self.features.enabled("ServiceAccountNodeAudienceRestriction") {
            self.audience(asked, &pod).await?;
        }
        Ok(())
    }

    /// Checks the audience of a token (KEP-4412): a volume of the pod names it, or the node is authorized for it.
    async fn audience(&self, asked: NodeRequest<'_>, pod: &Value) -> Verdict {
        let audience = match asked.object.list_at(&["spec", "audiences"]) {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return no("node may only request 0 or 1 audiences"),
        };
        let shown = go_quote(audience);
        match self.mounts(pod, audience).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return no(format!("error validating audience {shown}: {why}")),
        }
        let attributes = asked.attributes;
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
            Ok(_) => no(format!(
                "audience {shown} not found in pod spec volume, {name} is not authorized to request tokens for this audience"
            )),
            Err(error) => no(format!(
                "audience {shown} not found in pod spec volume, error authorizing {name} to request tokens for this audience: \
                 {error}"
            )),
        }
    }

    /// Returns true if a volume of the pod needs tokens for the audience.
    async fn mounts(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut errors = Vec::new();
        for volume in pod.list_at(&["spec", "volumes"]) {
            let projected = volume.list_at(&["projected", "sources"]).iter();
            let mut tokens = projected.filter_map(|source| source.get("serviceAccountToken"));
            if tokens.any(|token| !token.is_null() && token.str_at(&["audience"]) == audience) {
                return Ok(true);
            }
            let wants = match self.driver(pod, volume).await {
                Ok(Some(driver)) => self.driver_wants(&driver, audience).await,
                Ok(None) => Ok(false),
                Err(status) => Err(status),
            };
            match wants {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(status) => errors.push(status.message().to_owned()),
            }
        }
        if errors.is_empty() { Ok(false) } else { Err(aggregate(errors)) }
    }

    /// Returns the name of the CSI driver of a volume.
    async fn driver(&self, pod: &Value, volume: &Value) -> Result<Option<String>, Status> {
        let metadata = |member| pod.str_at(&["metadata", member]);
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        let claim = if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some_and(|template| !template.is_null()) {
            format!("{}-{}", metadata("name"), volume.str_at(&["name"]))
        } else if !claim.is_empty() {
            claim.to_owned()
        } else {
            return Ok(driver_of(volume));
        };
        let namespace = metadata("namespace");
        let claim = self.known(LookupKind::PersistentVolumeClaim, "persistentvolumeclaim", namespace, &claim).await?;
        let volume = claim.str_at(&["spec", "volumeName"]);
        let volume = self.known(LookupKind::PersistentVolume, "persistentvolume", "", volume).await?;
        Ok(volume.get("spec").and_then(driver_of))
    }

    async fn driver_wants(&self, driver: &str, audience: &str) -> Result<bool, Status> {
        let driver = self.known(LookupKind::CsiDriver, "csidriver", "", driver).await?;
        let requests = driver.list_at(&["spec", "tokenRequests"]);
        Ok(requests.iter().any(|request| request.str_at(&["audience"]) == audience))
    }
}

fn driver_of(source: &Value) -> Option<String> {
    let named = source.str_at(&["csi", "driver"]);
    let migrated = || MIGRATED.into_iter().find(|(member, _)| source.get(member).is_some_and(|old| !old.is_null()));
    if named.is_empty() { migrated().map(|(_, driver)| driver.to_owned()) } else { Some(named.to_owned()) }
}
