//! DefaultStorageClass and DefaultIngressClass: claims and ingresses without a class get the default class, or the
//! newest if there are several.

use std::sync::Arc;

use binnacle_fields::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::networking::v1::{Ingress, IngressSpec};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

pub(crate) struct DefaultClass {
    lookup: Arc<dyn Lookup>,
    rule: &'static Rule,
}

struct Rule {
    plugin: &'static str,
    group: &'static str,
    plural: &'static str,
    /// The deprecated annotation for the class.
    annotation: &'static str,
    /// Returns true if an object has a class, possibly an empty one, which means no class.
    is_set: fn(&Value) -> bool,
    set: fn(&mut Value, Text),
    class: LookupKind,
    /// The annotations of default classes.
    marks: &'static [&'static str],
}

static STORAGE: Rule = Rule {
    plugin: "DefaultStorageClass",
    group: "",
    plural: "persistentvolumeclaims",
    annotation: "volume.beta.kubernetes.io/storage-class",
    is_set: |claim| {
        let claim = FieldRef::<PersistentVolumeClaim>::root(claim);
        claim.at(PersistentVolumeClaim::SPEC).at(PersistentVolumeClaimSpec::STORAGE_CLASS_NAME).is_set()
    },
    set: |claim, name| {
        let mut claim = FieldMut::<PersistentVolumeClaim>::root(claim);
        claim.entry(PersistentVolumeClaim::SPEC).set(PersistentVolumeClaimSpec::STORAGE_CLASS_NAME, name);
    },
    class: LookupKind::StorageClass,
    marks: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
};

static INGRESS: Rule = Rule {
    plugin: "DefaultIngressClass",
    group: "networking.k8s.io",
    plural: "ingresses",
    annotation: "kubernetes.io/ingress.class",
    is_set: |ingress| FieldRef::<Ingress>::root(ingress).at(Ingress::SPEC).at(IngressSpec::INGRESS_CLASS_NAME).is_set(),
    set: |ingress, name| {
        FieldMut::<Ingress>::root(ingress).entry(Ingress::SPEC).set(IngressSpec::INGRESS_CLASS_NAME, name);
    },
    class: LookupKind::IngressClass,
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

impl DefaultClass {
    pub(crate) fn of_storage(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, rule: &STORAGE }
    }

    pub(crate) fn of_ingresses(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, rule: &INGRESS }
    }
}

impl Plugin for DefaultClass {
    fn name(&self) -> &'static str {
        self.rule.plugin
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && attributes.operation == Operation::Create
            && is_resource(attributes, self.rule.group, self.rule.plural)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let rule = self.rule;
            if (rule.is_set)(object) || metadata(object).at(ObjectMeta::ANNOTATIONS).key(rule.annotation).is_set() {
                return Ok(());
            }
            let classes = self.lookup.list(rule.class, "", Freshness::Cached).await;
            let classes = classes.map_err(|status| forbidden(request.attributes, object, status.message()))?;
            if let Some(name) = default_of(&classes, rule.marks) {
                (rule.set)(object, name);
            }
            Ok(())
        })
    }
}

/// Returns the newest default class, or the first of them by name.
fn default_of(classes: &[Arc<Value>], marks: &[&str]) -> Option<Text> {
    let marked = |class: &FieldRef<ObjectMeta>| {
        let annotations = class.at(ObjectMeta::ANNOTATIONS);
        marks.iter().any(|mark| annotations.key(mark).str() == "true")
    };
    // Timestamps in this format sort chronologically.
    let key = |class: &FieldRef<ObjectMeta>| {
        let name = class.at(ObjectMeta::NAME).str().to_owned();
        (std::cmp::Reverse(class.at(ObjectMeta::CREATION_TIMESTAMP).str().to_owned()), name)
    };
    let default = classes.iter().map(|class| metadata(class)).filter(marked).min_by_key(key);
    default.map(|class| class.at(ObjectMeta::NAME).str().into())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn newest_default_class_wins() {
        let class = |name: &str, at: &str, mark: &str| {
            Arc::new(value!({"metadata": {
                "name": name, "creationTimestamp": at,
                "annotations": {"storageclass.kubernetes.io/is-default-class": mark}
            }}))
        };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
        for (classes, want) in [
            (vec![], None),
            (vec![class("a", new, "false"), class("b", old, "true")], Some("b")),
            (vec![class("a", old, "true"), class("b", new, "true")], Some("b")),
            (vec![class("b", new, "true"), class("a", new, "true")], Some("a")),
        ] {
            assert_eq!(default_of(&classes, STORAGE.marks).as_deref(), want);
        }
    }
}
