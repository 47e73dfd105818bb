//! Tokens with an expiry that are bound to a pod, a node, a secret, or only to their service account.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::User;

use super::claims::{BoundClaims, ObjectCheck, ObjectReference, RegisteredClaims, VerifiedToken};
use super::objects::{BoundKind, ObjectState};
use super::{ServiceAccountTokens, seconds_now, user_of};
use crate::AuthnError;
use crate::authenticator::{Notes, with_authenticated_group};

/// The tolerated clock skew, and the time for which the tokens of an object remain valid after its deletion timestamp,
/// in seconds.
const LEEWAY: f64 = 60.0;
const INVALIDATED: &str = "service account token has been invalidated";

impl ServiceAccountTokens {
    pub(super) async fn check_bound(
        &self,
        verified: &VerifiedToken,
        claims: &BoundClaims,
        notes: &mut Notes,
    ) -> Result<Arc<User>, AuthnError> {
        let now = seconds_now();
        check_times(&verified.public, now)?;
        let objects = self.bound_objects(claims).await?;
        for (object, (kind, reference)) in objects.iter().zip(bound_references(claims)) {
            if object.deleted.is_some_and(|at| (at as f64) < now - LEEWAY) {
                return Err(match kind {
                    BoundKind::ServiceAccount => {
                        AuthnError(format!("service account {}/{} has been deleted", claims.namespace, reference.name))
                    }
                    _ => AuthnError::new(INVALIDATED),
                });
            }
        }
        if let Some(warn_after) = claims.warn_after {
            if now > warn_after {
                let late = now.floor() as i64 - warn_after as i64;
                let subject = &verified.public.subject;
                let text = format!("subject: {subject}, seconds after warning threshold: {late}");
                notes.annotations.push(("authentication.k8s.io/stale-token".into(), text.into()));
                self.metrics.stale.inc();
            } else {
                self.metrics.valid.inc();
            }
        }
        let mut checked = verified.checked.lock();
        if let Some(checked) = &*checked
            && checked.objects.len() == objects.len()
            && checked.objects.iter().zip(&objects).all(|(then, now)| Arc::ptr_eq(then, now))
        {
            return Ok(checked.user.clone());
        }
        let user = with_authenticated_group(user(&verified.public, claims));
        *checked = Some(ObjectCheck { objects, user: user.clone() });
        Ok(user)
    }

    /// Looks up the service account and the object that the token is bound to. Each must have the UID in the token.
    async fn bound_objects(&self, claims: &BoundClaims) -> Result<Vec<Arc<ObjectState>>, AuthnError> {
        let mut objects = Vec::with_capacity(2);
        for (kind, reference) in bound_references(claims) {
            let namespace = if kind == BoundKind::Node { "" } else { claims.namespace.as_str() };
            let mut found = self.objects.state(kind, namespace, &reference.name, false).await?;
            if found.as_ref().is_none_or(|found| found.uid != reference.uid) {
                // A newly created object may not be in the cache yet.
                found = self.objects.state(kind, namespace, &reference.name, true).await?;
            }
            let Some(found) = found else {
                return Err(match kind {
                    BoundKind::ServiceAccount => AuthnError(format!("serviceaccounts {:?} not found", reference.name)),
                    _ => AuthnError::new(INVALIDATED),
                });
            };
            if found.uid != reference.uid {
                let (description, claim) = match kind {
                    BoundKind::ServiceAccount => ("service account", "claim"),
                    BoundKind::Secret => ("secret", "service account secret ref claim"),
                    BoundKind::Pod => ("pod", "service account pod ref claim"),
                    BoundKind::Node => ("node", "service account node ref claim"),
                };
                return Err(AuthnError(format!(
                    "{description} UID ({}) does not match {claim} ({})",
                    found.uid, reference.uid
                )));
            }
            objects.push(found);
        }
        Ok(objects)
    }
}

/// Returns the objects that must exist, in the order in which they are looked up. The node of a pod's token is not
/// looked up.
fn bound_references(claims: &BoundClaims) -> impl Iterator<Item = (BoundKind, &ObjectReference)> {
    let node = claims.node.as_ref().filter(|_| claims.pod.is_none());
    let bound =
        [(BoundKind::Secret, claims.secret.as_ref()), (BoundKind::Pod, claims.pod.as_ref()), (BoundKind::Node, node)];
    let bound = bound.into_iter().filter_map(|(kind, reference)| Some((kind, reference?)));
    std::iter::once((BoundKind::ServiceAccount, &claims.account)).chain(bound)
}

fn check_times(claims: &RegisteredClaims, now: f64) -> Result<(), AuthnError> {
    let why = if claims.not_before.is_some_and(|at| now + LEEWAY < at) {
        "service account token is not valid yet"
    } else if claims.expires.is_some_and(|at| now - LEEWAY > at) {
        "service account token has expired"
    } else if claims.issued.is_some_and(|at| now + LEEWAY < at) {
        "service account token is issued in the future"
    } else {
        return Ok(());
    };
    Err(AuthnError::new(why))
}

fn user(public: &RegisteredClaims, claims: &BoundClaims) -> User {
    let mut extra: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
    let mut add = |key: &'static str, value: Text| extra.insert(Text::new_static(key), vec![value]);
    if let Some(pod) = claims.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
        add("authentication.kubernetes.io/pod-name", pod.name.clone());
        add("authentication.kubernetes.io/pod-uid", pod.uid.clone());
    }
    if !public.id.is_empty() {
        add("authentication.kubernetes.io/credential-id", format!("JTI={}", public.id).into());
    }
    if let Some(node) = claims.node.as_ref().filter(|node| !node.name.is_empty()) {
        add("authentication.kubernetes.io/node-name", node.name.clone());
        if !node.uid.is_empty() {
            add("authentication.kubernetes.io/node-uid", node.uid.clone());
        }
    }
    User { extra, ..user_of(&claims.namespace, &claims.account.name, &claims.account.uid) }
}
