//! Restrictions of PodCertificateRequests (KEP-4317): a node requests certificates only for the pods that run on it.

use std::sync::Arc;

use binnacle_fields::certificates::v1beta1::{PodCertificateRequest, PodCertificateRequestSpec as Spec};
use binnacle_fields::core::v1::PodSpec;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{StatusReason, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;

use super::pods::is_bound_to;
use super::{MIRROR, NodeRequest, NodeRestriction, Refusal, Verdict, no, not_yet, shown};
use crate::lookup::LookupKind;
use crate::plugins::pod;

impl NodeRestriction {
    /// Checks a request for a pod's certificate. An object missing in the cache is a transient error, not a refusal.
    pub(super) async fn pod_certificate(&self, asked: NodeRequest<'_>) -> Verdict {
        let attributes = asked.attributes;
        if !self.features.enabled("PodCertificateRequest") {
            return no("PodCertificateRequest feature gate is disabled");
        }
        if attributes.operation != Operation::Create {
            return no(format!("unexpected operation {}", shown(attributes.operation)));
        }
        if !attributes.subresource.is_empty() {
            return no(format!("unexpected subresource {}", attributes.subresource));
        }
        let namespace = attributes.namespace.as_str();
        let request = FieldRef::<PodCertificateRequest>::root(asked.object);
        let spec = request.at(PodCertificateRequest::SPEC);
        let spec = |field| spec.at(field).str();
        let uid = |object: &Value| metadata(object).at(ObjectMeta::UID).str().to_owned();
        let qualified = |name: &str| go_quote(&format!("{namespace}/{name}"));
        let pod_shown = qualified(spec(Spec::POD_NAME));

        let node = spec(Spec::NODE_NAME);
        if node != asked.node {
            let (named, asking) = (go_quote(node), go_quote(asked.node));
            return no(format!(
                "PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {asking}"
            ));
        }
        let found = self.named(LookupKind::Node, "node", "", node, &format!("node {}", go_quote(node))).await?;
        if uid(&found) != spec(Spec::NODE_UID) {
            let (said, known) = (go_quote(spec(Spec::NODE_UID)), go_quote(&uid(&found)));
            return Err(not_yet(format!(
                "PodCertificateRequest for pod {pod_shown} names node UID {said}, inconsistent with the running node ({known})"
            )));
        }
        let pod =
            self.named(LookupKind::Pod, "pod", namespace, spec(Spec::POD_NAME), &format!("pod {pod_shown}")).await?;
        if uid(&pod) != spec(Spec::POD_UID) {
            let (said, known) = (go_quote(spec(Spec::POD_UID)), go_quote(&uid(&pod)));
            return Err(not_yet(format!(
                "PodCertificateRequest for pod {pod_shown} contains pod UID ({said}) which differs from running pod {known}"
            )));
        }
        if !is_bound_to(&pod, node) {
            let node = go_quote(node);
            return no(format!("pod {pod_shown} is not running on node {node} named in the PodCertificateRequest"));
        }
        if metadata(&pod).at(ObjectMeta::ANNOTATIONS).key(MIRROR).is_set() {
            return no(format!("pod {pod_shown} is a mirror pod"));
        }
        let account = spec(Spec::SERVICE_ACCOUNT_NAME);
        let runs_as = pod::spec(&pod).at(PodSpec::SERVICE_ACCOUNT_NAME).str();
        if account != runs_as {
            let (account, runs_as) = (go_quote(account), go_quote(runs_as));
            return no(format!(
                "PodCertificateRequest for pod {pod_shown} contains serviceAccountName ({account}) that differs from running \
                 pod ({runs_as})"
            ));
        }
        let what = format!("service account {}", qualified(account));
        let found = self.named(LookupKind::ServiceAccount, "serviceaccount", namespace, account, &what).await?;
        if uid(&found) != spec(Spec::SERVICE_ACCOUNT_UID) {
            let (said, known) = (go_quote(spec(Spec::SERVICE_ACCOUNT_UID)), go_quote(&uid(&found)));
            return Err(not_yet(format!(
                "PodCertificateRequest for pod {pod_shown} names service account UID {said}, which differs from the running \
                 service account ({known})"
            )));
        }
        Ok(())
    }

    /// Returns an object that the request names; `what` describes it in errors.
    async fn named(
        &self,
        kind: LookupKind,
        singular: &str,
        namespace: &str,
        name: &str,
        what: &str,
    ) -> Result<Arc<Value>, Refusal> {
        self.known(kind, singular, namespace, name).await.map_err(|status| {
            let why = format!("while retrieving {what} named in the PodCertificateRequest: {}", status.message());
            // The cache may not have it yet.
            if status.is(StatusReason::NotFound) { not_yet(why) } else { why.into() }
        })
    }
}
