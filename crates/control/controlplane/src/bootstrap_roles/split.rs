//! A binding that was split from another one. On older clusters, changes that an administrator made to the old binding
//! also apply to the new one, so that an upgrade grants no revoked access.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::rbac::v1::ClusterRoleBinding;
use binnacle_fields::{FieldMut, FieldRef, metadata, route};
use binnacle_meta::{Status, StatusReason};
use binnacle_schema::Value;

use binnacle_controllers::Objects;

/// Since v1.14 anonymous users may read versions and health, but not discovery.
const SOURCE: &str = "system:discovery";
const TARGET: &str = "system:public-info-viewer";

/// Creates the target if it is missing, with the subjects, labels and annotations of the source.
pub(super) async fn ensure(objects: &Objects, wanted: &[Value]) -> Result<(), Status> {
    let Some(source) = objects.get("", SOURCE).await? else { return Ok(()) };
    let named = |binding: &&Value| metadata(binding).at(ObjectMeta::NAME).str() == TARGET;
    let Some(mut target) = wanted.iter().find(named).cloned() else { return Ok(()) };
    if objects.get("", TARGET).await?.is_some() {
        return Ok(());
    }
    let (mut binding, source) = (FieldMut::<ClusterRoleBinding>::root(&mut target), FieldRef::root(&source));
    binding.keep(source, ClusterRoleBinding::SUBJECTS);
    binding.keep_at(source, route![ClusterRoleBinding::METADATA, ObjectMeta::LABELS]);
    binding.keep_at(source, route![ClusterRoleBinding::METADATA, ObjectMeta::ANNOTATIONS]);
    match objects.create("", target).await {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        created => created.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[tokio::test]
    async fn copies_subjects_of_restricted_binding() {
        let resources = binnacle_test_cluster::resources();
        let bindings = Objects::new(&resources, super::super::GROUP, "v1", "clusterrolebindings").unwrap();
        let found = async |name| bindings.get("", name).await.unwrap().unwrap();
        super::super::ensure(&resources).await.unwrap();
        let authenticated = value!([
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}
        ]);
        let close = |binding: &mut Value| {
            binding.make_object().insert("subjects", authenticated.clone());
            binding.make_at(&["metadata", "annotations"]).insert(super::super::AUTO_UPDATE, "false");
        };
        bindings.update("", SOURCE, "", close).await.unwrap();
        bindings.delete("", TARGET).await.unwrap();
        super::super::ensure(&resources).await.unwrap();
        let target = found(TARGET).await;
        assert_eq!(target.get("subjects"), Some(&authenticated));
        assert_eq!(target.str_at(&["metadata", "annotations", super::super::AUTO_UPDATE]), "false");
        assert_eq!(target.str_at(&["roleRef", "name"]), TARGET);
        // No subjects are copied when both exist.
        let open = |binding: &mut Value| drop(binding.make_object().remove("subjects"));
        bindings.update("", SOURCE, "", open).await.unwrap();
        super::super::ensure(&resources).await.unwrap();
        assert_eq!(found(TARGET).await.get("subjects"), Some(&authenticated));
    }
}
