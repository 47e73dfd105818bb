//! Restrictions on PodCertificateRequests (KEP-4317): a node may only request certificates for the pods that run on it.

use std::sync::Arc;

use binnacle_fields::certificates::v1beta1::{PodCertificateRequest, PodCertificateRequestSpec as Spec};
use binnacle_fields::core::v1::PodSpec;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{StatusReason, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;

use super::pods::is_bound_to;
use super::{MIRROR, NodeRequest, NodeRestriction, Refusal, Verdict, operation_name, refuse, retryable};
use crate::lookup::LookupKind;
use crate::plugins::pod;

impl NodeRestriction {
    /// Checks a request for a pod's certificate. An object that is not in the cache is a transient error.
    pub(super) async fn pod_certificate(&self, node_request: NodeRequest<'_>) -> Verdict {
        let attributes = node_request.attributes;
        if !self.features.enabled("PodCertificateRequest") {
            return refuse("PodCertificateRequest feature gate is disabled");
        }
        if attributes.operation != Operation::Create {
            return refuse(format!("unexpected operation {}", operation_name(attributes.operation)));
        }
        if !attributes.subresource.is_empty() {
            return refuse(format!("unexpected subresource {}", attributes.subresource));
        }
        let namespace = attributes.namespace.as_str();
        let request = FieldRef::<PodCertificateRequest>::root(node_request.object);
        let spec = request.at(PodCertificateRequest::SPEC);
        let spec = |field| spec.at(field).str();
        let uid = |object: &Value| metadata(object).at(ObjectMeta::UID).str().to_owned();
        let qualified = |name: &str| go_quote(&format!("{namespace}/{name}"));
        let pod_shown = qualified(spec(Spec::POD_NAME));

        let node = spec(Spec::NODE_NAME);
        if node != node_request.node {
            let (named, requesting) = (go_quote(node), go_quote(node_request.node));
            return refuse(format!(
                "PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {requesting}"
            ));
        }
        let found = self.named_object(LookupKind::Node, "node", "", node, &format!("node {}", go_quote(node))).await?;
        if uid(&found) != spec(Spec::NODE_UID) {
            let (named_uid, actual_uid) = (go_quote(spec(Spec::NODE_UID)), go_quote(&uid(&found)));
            return Err(retryable(format!(
                "PodCertificateRequest for pod {pod_shown} names node UID {named_uid}, inconsistent with the running node ({actual_uid})"
            )));
        }
        let pod = self
            .named_object(LookupKind::Pod, "pod", namespace, spec(Spec::POD_NAME), &format!("pod {pod_shown}"))
            .await?;
        if uid(&pod) != spec(Spec::POD_UID) {
            let (named_uid, actual_uid) = (go_quote(spec(Spec::POD_UID)), go_quote(&uid(&pod)));
            return Err(retryable(format!(
                "PodCertificateRequest for pod {pod_shown} contains pod UID ({named_uid}) which differs from running pod {actual_uid}"
            )));
        }
        if !is_bound_to(&pod, node) {
            let node = go_quote(node);
            return refuse(format!("pod {pod_shown} is not running on node {node} named in the PodCertificateRequest"));
        }
        if metadata(&pod).at(ObjectMeta::ANNOTATIONS).key(MIRROR).is_set() {
            return refuse(format!("pod {pod_shown} is a mirror pod"));
        }
        let account = spec(Spec::SERVICE_ACCOUNT_NAME);
        let runs_as = pod::spec(&pod).at(PodSpec::SERVICE_ACCOUNT_NAME).str();
        if account != runs_as {
            let (account, runs_as) = (go_quote(account), go_quote(runs_as));
            return refuse(format!(
                "PodCertificateRequest for pod {pod_shown} contains serviceAccountName ({account}) that differs from running \
                 pod ({runs_as})"
            ));
        }
        let description = format!("service account {}", qualified(account));
        let found =
            self.named_object(LookupKind::ServiceAccount, "serviceaccount", namespace, account, &description).await?;
        if uid(&found) != spec(Spec::SERVICE_ACCOUNT_UID) {
            let (named_uid, actual_uid) = (go_quote(spec(Spec::SERVICE_ACCOUNT_UID)), go_quote(&uid(&found)));
            return Err(retryable(format!(
                "PodCertificateRequest for pod {pod_shown} names service account UID {named_uid}, which differs from the running \
                 service account ({actual_uid})"
            )));
        }
        Ok(())
    }

    /// Returns an object that the request references; `description` describes it in errors.
    async fn named_object(
        &self,
        kind: LookupKind,
        singular: &str,
        namespace: &str,
        name: &str,
        description: &str,
    ) -> Result<Arc<Value>, Refusal> {
        self.cached_object(kind, singular, namespace, name).await.map_err(|status| {
            let why =
                format!("while retrieving {description} named in the PodCertificateRequest: {}", status.message());
            // It may not be in the cache yet.
            if status.is(StatusReason::NotFound) { retryable(why) } else { why.into() }
        })
    }
}
