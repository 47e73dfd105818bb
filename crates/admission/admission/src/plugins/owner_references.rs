//! OwnerReferencesPermissionEnforcement: changing the owners of an object requires permission to delete it, and setting
//! `blockOwnerDeletion` requires permission to set the owner's finalizers.

use std::sync::Arc;

use binnacle_authz::{Attributes as Access, Authorizer};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::types::List;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{GroupVersion, Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::{BoxFuture, Decision};
use binnacle_schema::Value;

use crate::lookup::Lookup;
use crate::plugin::{Plugin, Request, Stage, forbidden};

pub(crate) struct OwnerReferences {
    lookup: Arc<dyn Lookup>,
    authorizer: Arc<dyn Authorizer>,
}

impl OwnerReferences {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { lookup, authorizer }
    }

    /// Authorizes an access. If it is not allowed, returns the reason and the error in kube-apiserver's format.
    async fn check_access(&self, access: &Access<'_>) -> Result<(), String> {
        match self.authorizer.authorize(access).await {
            Ok(Decision::Allow(_)) => Ok(()),
            Ok(Decision::Deny(reason) | Decision::NoOpinion(reason)) => Err(format!("{reason}, <nil>")),
            Err(error) => Err(format!(", {error}")),
        }
    }

    async fn check(&self, attributes: &Attributes, object: &Value, old: Option<&Value>) -> Result<(), String> {
        let user = &attributes.user;
        if attributes.operation != Operation::Create {
            let delete = Access {
                verb: "delete",
                is_resource_request: true,
                namespace: &attributes.namespace,
                api_group: &attributes.resource.group,
                api_version: &attributes.resource.version,
                resource: &attributes.resource.resource,
                subresource: &attributes.subresource,
                name: &attributes.name,
                ..Access::nothing(user)
            };
            self.check_access(&delete)
                .await
                .map_err(|why| format!("cannot set an ownerRef on a resource you can't delete: {why}"))?;
        }
        let blocking = newly_blocking(object, old);
        let anything = Access {
            verb: "update",
            is_resource_request: true,
            api_group: "*",
            api_version: "*",
            resource: "*",
            subresource: "finalizers",
            name: "*",
            ..Access::nothing(user)
        };
        if blocking.is_empty() || self.check_access(&anything).await.is_ok() {
            return Ok(());
        }
        for owner in blocking {
            self.check_owner(attributes, owner, &anything).await?;
        }
        Ok(())
    }

    async fn check_owner(
        &self,
        attributes: &Attributes,
        owner: FieldRef<'_, '_, OwnerReference>,
        access: &Access<'_>,
    ) -> Result<(), String> {
        let (api_version, kind) = (owner.at(OwnerReference::API_VERSION).str(), owner.at(OwnerReference::KIND).str());
        let unknown = |why: String| {
            format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: {why}"
            )
        };
        let version = GroupVersion::parse(api_version)
            .ok_or_else(|| unknown(format!("unexpected GroupVersion string: {api_version}")))?;
        let mapping = self.lookup.mapping(&version.group, &version.version, kind).ok_or_else(|| {
            unknown(format!("no matches for kind {} in version {}", go_quote(kind), go_quote(api_version)))
        })?;
        let finalize = Access {
            // A namespaced owner is in the namespace of its dependent.
            namespace: if mapping.namespaced { &attributes.namespace } else { "" },
            api_group: &version.group,
            api_version: &version.version,
            resource: &mapping.plural,
            name: owner.at(OwnerReference::NAME).str(),
            ..*access
        };
        self.check_access(&finalize).await.map_err(|why| {
            format!("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {why}")
        })
    }
}

impl Plugin for OwnerReferences {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        // Writes of a pod's status cannot change its owners, and old kubelets send invalid ones.
        let resource = &attributes.resource;
        let pod_status = resource.group.is_empty() && resource.resource == "pods" && attributes.subresource == "status";
        stage == Stage::Validate && matches!(attributes.operation, Operation::Create | Operation::Update) && !pod_status
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if owners(object).list() == request.old.map_or(&[][..], |old| owners(old).list()) {
                return Ok(());
            }
            let outcome = self.check(request.attributes, object, request.old).await;
            outcome.map_err(|why| forbidden(request.attributes, object, why))
        })
    }
}

fn owners(object: &Value) -> FieldRef<'static, '_, List<OwnerReference>> {
    metadata(object).at(ObjectMeta::OWNER_REFERENCES).detached()
}

/// Returns the owners whose `blockOwnerDeletion` the request sets.
fn newly_blocking<'a>(object: &'a Value, old: Option<&Value>) -> Vec<FieldRef<'static, 'a, OwnerReference>> {
    let blocks = |owner: FieldRef<OwnerReference>| owner.at(OwnerReference::BLOCK_OWNER_DELETION).bool();
    let old = old.map(owners);
    let blocked = |uid: &str| {
        let before = old.and_then(|old| old.values().rfind(|owner| owner.at(OwnerReference::UID).str() == uid));
        before.is_some_and(blocks)
    };
    owners(object).values().filter(|owner| blocks(*owner) && !blocked(owner.at(OwnerReference::UID).str())).collect()
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::{AccessListAuthorizer, FixedLookup, admit, attributes};

    #[tokio::test]
    async fn requires_permission_to_delete_or_to_finalize() {
        let owned = |owners: &[Value]| value!({"metadata": {"name": "x", "ownerReferences": (owners.to_vec())}});
        let owner = |api: &str, kind: &str, blocks: bool| value!({"apiVersion": api, "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": blocks});
        let set = owner("apps/v1", "ReplicaSet", false);
        let blocking = owner("apps/v1", "ReplicaSet", true);
        let node = owner("v1", "Node", true);
        let strange = owner("a.test/v1", "Strange", true);
        let none: &[Value] = &[];
        let delete = "cannot set an ownerRef on a resource you can't delete: , <nil>";
        let finalize = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";
        let unknown = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion a.test/v1 Kind Strange: no matches for kind \"Strange\" in version \"a.test/v1\"";
        for (allows, old, new, want) in [
            (vec![], None, std::slice::from_ref(&set), None),
            (vec![], None, std::slice::from_ref(&blocking), Some(finalize)),
            (vec!["update replicasets finalizers o"], None, std::slice::from_ref(&blocking), None),
            (vec!["update nodes finalizers o"], None, std::slice::from_ref(&node), None),
            (vec![], None, std::slice::from_ref(&strange), Some(unknown)),
            (vec!["update * finalizers *"], None, std::slice::from_ref(&strange), None),
            (vec![], Some(none), none, None),
            (vec![], Some(std::slice::from_ref(&blocking)), std::slice::from_ref(&blocking), None),
            (vec![], Some(none), std::slice::from_ref(&set), Some(delete)),
            (vec![], Some(std::slice::from_ref(&set)), none, Some(delete)),
            (vec!["delete pods x"], Some(none), std::slice::from_ref(&set), None),
            (vec!["delete pods x"], Some(std::slice::from_ref(&set)), std::slice::from_ref(&blocking), Some(finalize)),
            (vec!["delete pods x"], Some(std::slice::from_ref(&blocking)), std::slice::from_ref(&set), None),
        ] {
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            let attributes = attributes(operation, ["", "v1", "pods"], "Pod", "");
            let lookup: Arc<dyn Lookup> = FixedLookup::new(Vec::new());
            let case = format!("{allows:?} {old:?} {new:?}");
            let plugin = Arc::new(OwnerReferences::new(lookup, Arc::new(AccessListAuthorizer(allows))));
            let old = old.map(owned);
            let admitted = admit(plugin, &attributes, &owned(new), old.as_ref()).await;
            let want = match want {
                None => Ok(owned(new)),
                Some(why) => Err((403, format!("pods \"x\" is forbidden: {why}"))),
            };
            assert_eq!(admitted, want, "{case}");
        }
    }
}
