//! PodTolerationRestriction: the default tolerations of a namespace's pods, and the tolerations that they may have.

use std::sync::Arc;

use binnacle_fields::core::v1::{Pod, PodSpec, PodStatus, Toleration};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Limits, Object, Value, json, value};

use super::pod;
use super::tolerations::{self, Tolerations};
use crate::lookup::{Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, is_resource};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// The tolerations for namespaces without annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterTolerations {
    pub default: Vec<Value>,
    pub whitelist: Vec<Value>,
}

pub(crate) struct PodTolerationRestriction {
    lookup: Arc<dyn Lookup>,
    cluster: ClusterTolerations,
}

impl PodTolerationRestriction {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, cluster: ClusterTolerations) -> Self {
        Self { lookup, cluster }
    }

    /// Returns the tolerations of a namespace's annotation; `None` without one.
    async fn of_namespace(&self, name: &str, annotation: &str) -> Result<Option<Vec<Value>>, Status> {
        let found = get_cached_or_stored(&*self.lookup, LookupKind::Namespace, "", name).await;
        let namespace = found
            .map_err(|status| Status::internal(status.message()))?
            .ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        let annotations = metadata(&namespace).at(ObjectMeta::ANNOTATIONS).detached();
        let Some(text) = annotations.key(annotation).get_str() else { return Ok(None) };
        if text.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let unreadable = |why: &dyn std::fmt::Display| Status::unknown(500, &why.to_string());
        let parsed = json::parse(text.as_bytes(), &Limits::default()).map_err(|error| unreadable(&error))?;
        match parsed {
            Value::List(tolerations) => Ok(Some(tolerations.iter().map(toleration).collect())),
            Value::Null => Ok(Some(Vec::new())),
            other => {
                let kind = if other.as_object().is_some() { "object" } else { "value" };
                Err(unreadable(&format!("json: cannot unmarshal {kind} into Go value of type []v1.Toleration")))
            }
        }
    }

    async fn check(&self, attributes: &Attributes, pod: &Value) -> Result<(), Status> {
        let spec = pod::spec(pod);
        let own = spec.at(PodSpec::TOLERATIONS);
        if own.is_empty() {
            return Ok(());
        }
        let (scope, whitelist) = match self.of_namespace(&attributes.namespace, WHITELIST).await? {
            Some(whitelist) => ("namespace", whitelist),
            None => ("cluster", self.cluster.whitelist.clone()),
        };
        let allowed = Tolerations::new(&whitelist);
        if whitelist.is_empty() || own.values().all(|toleration| allowed.include(toleration)) {
            return Ok(());
        }
        let why = format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        );
        Err(Status::unknown(500, &why))
    }
}

impl Plugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    fn handles(&self, _: Stage, attributes: &Attributes) -> bool {
        matches!(attributes.operation, Operation::Create | Operation::Update) && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let mut extra = Vec::new();
            if request.is_create() {
                let own = self.of_namespace(&request.attributes.namespace, DEFAULTS).await?;
                extra = own.unwrap_or_else(|| self.cluster.default.clone());
            }
            if qos_class(object) != "BestEffort" {
                extra.push(value!({"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"}));
            }
            if !extra.is_empty() {
                let merged = tolerations::merge(pod::spec(object).at(PodSpec::TOLERATIONS).list(), &extra);
                FieldMut::<Pod>::root(object).entry(Pod::SPEC).set(PodSpec::TOLERATIONS, merged);
            }
            self.check(request.attributes, object).await
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(request.attributes, object))
    }
}

/// Returns a toleration of an annotation with only its known fields.
fn toleration(given: &Value) -> Value {
    let members = [Toleration::KEY, Toleration::OPERATOR, Toleration::VALUE, Toleration::EFFECT].map(|f| f.name());
    let members = members.into_iter().chain([Toleration::TOLERATION_SECONDS.name()]);
    members.filter_map(|member| Some((member, given.get(member)?.clone()))).collect::<Object>().into()
}

/// Returns the QoS class of the status, or else the computed one.
fn qos_class(pod: &Value) -> &str {
    match FieldRef::<Pod>::root(pod).at(Pod::STATUS).at(PodStatus::QOS_CLASS).str() {
        "" => binnacle_validation::pod_resources::qos_class_of_pod(pod),
        class => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FixedLookup, admit, pods};

    #[tokio::test]
    async fn merges_defaults_and_checks_whitelists() {
        let toleration = |key: &str| value!({"key": key, "operator": "Exists"});
        let pressure = value!({"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"});
        let annotated = |key: &str| format!("[{{\"key\": \"{key}\", \"operator\": \"Exists\"}}]");
        let conflict = |scope: &str| {
            let why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its";
            Err((500, format!("{why} {scope} whitelist")))
        };
        let cluster =
            ClusterTolerations { default: vec![toleration("c")], whitelist: vec![toleration("c"), toleration("o")] };
        let none = ClusterTolerations::default();
        for (cluster, defaults, whitelist, own, requests, want) in [
            (&none, None, None, vec![], value!({}), Ok(vec![])),
            (&none, None, None, vec![], value!({"cpu": "1"}), Ok(vec![pressure.clone()])),
            (
                &none,
                Some(annotated("n")),
                None,
                vec![toleration("o")],
                value!({}),
                Ok(vec![toleration("o"), toleration("n")]),
            ),
            (&cluster, None, None, vec![toleration("o")], value!({}), Ok(vec![toleration("o"), toleration("c")])),
            (&cluster, Some(String::new()), None, vec![], value!({}), Ok(vec![])),
            (&cluster, None, None, vec![toleration("x")], value!({}), conflict("cluster")),
            (&cluster, None, Some(annotated("x")), vec![toleration("x")], value!({}), conflict("namespace")),
            (&none, None, Some(annotated("x")), vec![toleration("x")], value!({}), Ok(vec![toleration("x")])),
            (&none, None, Some(annotated("x")), vec![toleration("y")], value!({}), conflict("namespace")),
            (
                &cluster,
                None,
                Some(String::new()),
                vec![toleration("y")],
                value!({}),
                Ok(vec![toleration("y"), toleration("c")]),
            ),
        ] {
            let mut namespace = value!({"metadata": {"name": "ns"}});
            for (annotation, text) in [(DEFAULTS, &defaults), (WHITELIST, &whitelist)] {
                if let Some(text) = text {
                    namespace.make_at(&["metadata", "annotations"]).insert(annotation, text.as_str());
                }
            }
            let case = format!("{defaults:?} {whitelist:?} {own:?}");
            let plugin = PodTolerationRestriction::new(
                FixedLookup::new(vec![(LookupKind::Namespace, namespace)]),
                cluster.clone(),
            );
            let pod = value!({"spec": {"containers": [{"resources": {"requests": requests}}], "tolerations": own}});
            let admitted = admit(Arc::new(plugin), &pods(Operation::Create), &pod, None).await;
            assert_eq!(admitted.map(|pod| pod.list_at(&["spec", "tolerations"]).to_vec()), want, "{case}");
        }
    }
}
