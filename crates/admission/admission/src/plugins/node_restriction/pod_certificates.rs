//! Restrictions of PodCertificateRequests (KEP-4317): a node requests certificates only for the pods that run on it.

use std::sync::Arc;

use binnacle_meta::{StatusReason, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;

use super::pods::is_bound_to;
use super::{MIRROR, NodeRequest, NodeRestriction, Refusal, Verdict, no, not_yet, shown};
use crate::lookup::LookupKind;

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
        let spec = |member: &str| asked.object.str_at(&["spec", member]);
        let uid = |object: &Value| object.str_at(&["metadata", "uid"]).to_owned();
        let qualified = |name: &str| go_quote(&format!("{namespace}/{name}"));
        let pod_shown = qualified(spec("podName"));

        let node = spec("nodeName");
        if node != asked.node {
            let (named, asking) = (go_quote(node), go_quote(asked.node));
            return no(format!(
                "PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {asking}"
            ));
        }
        let found = self.named(LookupKind::Node, "node", "", node, &format!("node {}", go_quote(node))).await?;
        if uid(&found) != spec("nodeUID") {
            let (said, known) = (go_quote(spec("nodeUID")), go_quote(&uid(&found)));
            return Err(not_yet(format!(
                "PodCertificateRequest for pod {pod_shown} names node UID {said}, inconsistent with the running node ({known})"
            )));
        }
        let pod = self.named(LookupKind::Pod, "pod", namespace, spec("podName"), &format!("pod {pod_shown}")).await?;
        if uid(&pod) != spec("podUID") {
            let (said, known) = (go_quote(spec("podUID")), go_quote(&uid(&pod)));
            return Err(not_yet(format!(
                "PodCertificateRequest for pod {pod_shown} contains pod UID ({said}) which differs from running pod {known}"
            )));
        }
        if !is_bound_to(&pod, node) {
            let node = go_quote(node);
            return no(format!("pod {pod_shown} is not running on node {node} named in the PodCertificateRequest"));
        }
        if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
            return no(format!("pod {pod_shown} is a mirror pod"));
        }
        let (account, runs_as) = (spec("serviceAccountName"), pod.str_at(&["spec", "serviceAccountName"]));
        if account != runs_as {
            let (account, runs_as) = (go_quote(account), go_quote(runs_as));
            return no(format!(
                "PodCertificateRequest for pod {pod_shown} contains serviceAccountName ({account}) that differs from running \
                 pod ({runs_as})"
            ));
        }
        let what = format!("service account {}", qualified(account));
        let found = self.named(LookupKind::ServiceAccount, "serviceaccount", namespace, account, &what).await?;
        if uid(&found) != spec("serviceAccountUID") {
            let (said, known) = (go_quote(spec("serviceAccountUID")), go_quote(&uid(&found)));
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
