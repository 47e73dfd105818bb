//! PodNodeSelector: pods only run on the nodes that their namespace's node selector matches.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::{FieldError, FieldPath, GroupResource, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value};
use binnacle_validation::names::{label_key, label_value};

use super::pod;
use crate::lookup::{Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, is_resource};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The key of the default selector for namespaces without the annotation.
const DEFAULT: &str = "clusterDefaultNodeSelector";

type Selector = BTreeMap<String, String>;

/// Selectors as text (`a=b,c=d`): by namespace, the labels that its pods may use in node selectors; under
/// `clusterDefaultNodeSelector`, the selector for namespaces without one.
pub type NodeSelectors = BTreeMap<String, String>;

pub(crate) struct PodNodeSelector {
    lookup: Arc<dyn Lookup>,
    selectors: NodeSelectors,
}

impl PodNodeSelector {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, selectors: NodeSelectors) -> Self {
        Self { lookup, selectors }
    }

    async fn of_namespace(&self, name: &str) -> Result<Selector, Status> {
        let found = get_cached_or_stored(&*self.lookup, LookupKind::Namespace, "", name).await;
        let namespace = match found.map_err(|status| Status::internal(status.message()))? {
            Some(namespace) => namespace,
            None => return Err(Status::internal(format!("namespace {name} does not exist"))),
        };
        let own = metadata(&namespace).at(ObjectMeta::ANNOTATIONS).key(ANNOTATION).get_str();
        self.parse_selector(own.or_else(|| self.selectors.get(DEFAULT).map(String::as_str)))
    }

    fn parse_selector(&self, text: Option<&str>) -> Result<Selector, Status> {
        // kube-apiserver returns errors other than Status without a specific reason.
        parse(text.unwrap_or("")).map_err(|why| Status::unknown(500, &why))
    }

    /// Checks that the pod's own selector does not conflict with its namespace's selector.
    fn compare(&self, namespace_selector: &Selector, pod: &Value) -> Result<(), Status> {
        let own = selector_of(pod);
        if namespace_selector.iter().any(|(key, value)| own.get(key).is_some_and(|own| own != value)) {
            return Err(refused(pod, "pod node label selector conflicts with its namespace node label selector"));
        }
        Ok(())
    }

    fn check(&self, attributes: &Attributes, namespace_selector: &Selector, pod: &Value) -> Result<(), Status> {
        self.compare(namespace_selector, pod)?;
        let allowed = self.parse_selector(self.selectors.get(attributes.namespace.as_str()).map(String::as_str))?;
        if allowed.is_empty() || selector_of(pod).iter().all(|(key, value)| allowed.get(key) == Some(value)) {
            return Ok(());
        }
        Err(refused(pod, "pod node label selector labels conflict with its namespace whitelist"))
    }
}

fn refused(pod: &Value, why: &str) -> Status {
    Status::forbidden(&GroupResource::new("", "pods"), metadata(pod).at(ObjectMeta::NAME).str(), why)
}

impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    fn handles(&self, _: Stage, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && is_resource(attributes, "", "pods")
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let namespace_selector = self.of_namespace(&request.attributes.namespace).await?;
            self.compare(&namespace_selector, object)?;
            if !namespace_selector.is_empty() {
                let merged = namespace_selector.clone().into_iter().chain(selector_of(object)).collect::<Selector>();
                let merged: Object = merged.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
                FieldMut::<Pod>::root(object).entry(Pod::SPEC).set(PodSpec::NODE_SELECTOR, Value::Object(merged));
            }
            self.check(request.attributes, &namespace_selector, object)
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let namespace_selector = self.of_namespace(&request.attributes.namespace).await?;
            self.check(request.attributes, &namespace_selector, object)
        })
    }
}

fn selector_of(pod: &Value) -> Selector {
    let spec = pod::spec(pod);
    let selector = spec.at(PodSpec::NODE_SELECTOR);
    selector.entries().map(|(key, value)| (key.to_owned(), value.str().to_owned())).collect()
}

/// Parses a selector, which may only have equality requirements.
fn parse(text: &str) -> Result<Selector, String> {
    let mut selector = Selector::new();
    if text.is_empty() {
        return Ok(selector);
    }
    for label in text.split(',') {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts[..] else { return Err(format!("invalid selector: [{}]", parts.join(" "))) };
        let (key, value) = (key.trim(), value.trim());
        let refuse = |at: FieldPath, value: &str, problems: Vec<String>| {
            if problems.is_empty() {
                return Ok(());
            }
            Err(FieldError::invalid(&at, value, problems.join("; ")).to_string())
        };
        refuse(FieldPath::default(), key, label_key(key))?;
        refuse(FieldPath::default().key(key), value, label_value(value))?;
        selector.insert(key.to_owned(), value.to_owned());
    }
    Ok(selector)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::{FixedLookup, admit, pods};

    #[tokio::test]
    async fn merges_and_checks_node_selectors() {
        let whitelist = "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist";
        let conflict =
            "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector";
        let configured = |pairs: &[(&str, &str)]| -> NodeSelectors {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        for (annotation, configured, own, want) in [
            (None, configured(&[]), value!({}), Ok(value!({}))),
            (
                None,
                configured(&[(DEFAULT, "zone=a")]),
                value!({"disk": "ssd"}),
                Ok(value!({"disk": "ssd", "zone": "a"})),
            ),
            (Some("env=x"), configured(&[(DEFAULT, "zone=a")]), value!({}), Ok(value!({"env": "x"}))),
            (Some(""), configured(&[(DEFAULT, "zone=a")]), value!({}), Ok(value!({}))),
            (Some("env=x, b = c"), configured(&[]), value!({"env": "x"}), Ok(value!({"b": "c", "env": "x"}))),
            (Some("env=x"), configured(&[]), value!({"env": "y"}), Err((403, conflict))),
            (
                Some("env=x"),
                configured(&[("ns", "env=x,zone=a")]),
                value!({"zone": "a"}),
                Ok(value!({"env": "x", "zone": "a"})),
            ),
            (Some("env=x"), configured(&[("ns", "env=x,zone=a")]), value!({"zone": "b"}), Err((403, whitelist))),
            (Some("env=x"), configured(&[("ns", "zone=a")]), value!({}), Err((403, whitelist))),
            (Some("env"), configured(&[]), value!({}), Err((500, "invalid selector: [env]"))),
        ] {
            let mut namespace = value!({"metadata": {"name": "ns"}});
            if let Some(annotation) = annotation {
                namespace.make_at(&["metadata", "annotations"]).insert(ANNOTATION, annotation);
            }
            let case = format!("{annotation:?} {configured:?} {own:?}");
            let plugin = PodNodeSelector::new(FixedLookup::new(vec![(LookupKind::Namespace, namespace)]), configured);
            let pod = value!({"metadata": {"name": "p"}, "spec": {"nodeSelector": own}});
            let admitted = admit(Arc::new(plugin), &pods(Operation::Create), &pod, None).await;
            let admitted = admitted.map(|pod| pod.at(&["spec", "nodeSelector"]).cloned().unwrap_or_default());
            assert_eq!(admitted, want.map_err(|(code, why)| (code, why.to_owned())), "{case}");
        }
        let nowhere = PodNodeSelector::new(FixedLookup::new(Vec::new()), NodeSelectors::new());
        let missing = admit(Arc::new(nowhere), &pods(Operation::Create), &value!({"spec": {}}), None).await;
        let why = "Internal error occurred: namespace ns does not exist";
        assert_eq!(missing, Err((500, why.to_owned())));
    }
}
