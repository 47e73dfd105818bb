//! Authorization checks in CEL expressions of admission.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use binnacle_authz::{Attributes, Authorizer};
use binnacle_cel::{Check, CheckTarget, Decision, ResourceCheck};
use binnacle_registry::admission;
use binnacle_request::{BoxFuture, Deferred, User};

/// The authorization checks of a request's expressions. Each check is made once; clones share the decisions.
#[derive(Clone)]
pub struct Checks(Arc<State>);

struct State {
    authorizer: Arc<dyn Authorizer>,
    user: User,
    /// The resource of the request.
    resource: ResourceCheck,
    decisions: Deferred<Check, Decision, BoxFuture<'static, Decision>>,
}

impl Checks {
    pub fn new(authorizer: Arc<dyn Authorizer>, attributes: &admission::Attributes) -> Self {
        let resource = ResourceCheck {
            group: attributes.resource.group.to_string(),
            resource: attributes.resource.resource.to_string(),
            subresource: attributes.subresource.to_string(),
            namespace: attributes.namespace.to_string(),
            name: attributes.name.to_string(),
            ..ResourceCheck::default()
        };
        Self(Arc::new(State { authorizer, user: attributes.user.clone(), resource, decisions: Deferred::default() }))
    }

    /// Returns the result of an evaluation once all its authorization checks are decided. `evaluate` is called again if
    /// an authorizer does not decide immediately, as most do, and must not have side effects.
    pub async fn resolve<T>(&self, evaluate: impl FnMut() -> T) -> T {
        let decided = async |decision: BoxFuture<'static, Decision>| Ok::<_, Infallible>(decision.await);
        let Ok(result) = self.0.decisions.resolve(evaluate, decided).await;
        result
    }

    pub(crate) fn authorizer_value(&self) -> binnacle_cel::Val<'static> {
        binnacle_cel::authorizer_value(self.0.clone())
    }

    pub(crate) fn resource_value(&self) -> binnacle_cel::Val<'static> {
        binnacle_cel::resource_check_value(self.0.clone(), self.0.resource.clone())
    }
}

impl binnacle_cel::Authorizer for State {
    fn authorize(&self, check: &Check) -> Decision {
        if let Some(decision) = self.decisions.answer_to(check) {
            return decision;
        }
        if self.decisions.is_deferred(check) {
            return Decision::default();
        }
        let mut decision = decide(self.authorizer.clone(), self.user.clone(), check.clone());
        match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decision) => {
                self.decisions.answer(check.clone(), decision.clone());
                decision
            }
            Poll::Pending => {
                self.decisions.defer(check.clone(), decision);
                Decision::default()
            }
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn decide(authorizer: Arc<dyn Authorizer>, user: User, check: Check) -> BoxFuture<'static, Decision> {
    Box::pin(async move {
        let service_account = check.service_account.as_ref().map(|(namespace, name)| service_account(namespace, name));
        let user = service_account.as_ref().unwrap_or(&user);
        let attributes = match &check.of {
            CheckTarget::Path(path) => Attributes { verb: &check.verb, path, ..Attributes::nothing(user) },
            CheckTarget::Resource(resource) => Attributes {
                verb: &check.verb,
                is_resource_request: true,
                api_group: &resource.group,
                api_version: "*",
                namespace: &resource.namespace,
                resource: &resource.resource,
                subresource: &resource.subresource,
                name: &resource.name,
                field_selector: &resource.field_selector,
                label_selector: &resource.label_selector,
                ..Attributes::nothing(user)
            },
        };
        match authorizer.authorize(&attributes).await {
            Ok(decision) => {
                Decision { allowed: decision.is_allow(), reason: decision.reason().to_owned(), error: None }
            }
            Err(error) => Decision { allowed: false, reason: error.reason.to_string(), error: Some(error.message) },
        }
    })
}

/// Returns the user of a service account as in kube-apiserver's expressions: without the group `system:authenticated`.
fn service_account(namespace: &str, name: &str) -> User {
    let mut user = User::new(User::service_account_name(namespace, name), &["system:serviceaccounts"]);
    user.groups.push(format!("system:serviceaccounts:{namespace}").into());
    user
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use binnacle_authz::AuthzError;
    use binnacle_cel::Authorizer as _;

    use super::*;
    use crate::expressions::match_conditions::tests::attributes;

    /// Decides after a delay, and counts its calls.
    #[derive(Default)]
    struct SlowCheck(AtomicUsize);

    impl Authorizer for SlowCheck {
        fn authorize<'a>(
            &'a self,
            attributes: &'a Attributes<'a>,
        ) -> BoxFuture<'a, Result<binnacle_request::Decision, AuthzError>> {
            Box::pin(async move {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                match attributes.verb {
                    "get" => Ok(binnacle_request::Decision::Allow("may".into())),
                    "list" => Err(AuthzError::new("broken")),
                    _ => Ok(binnacle_request::Decision::NoOpinion("no".into())),
                }
            })
        }
    }

    #[tokio::test]
    async fn repeats_evaluation_until_decisions_are_known() {
        let slow = Arc::new(SlowCheck::default());
        let checks = Checks::new(slow.clone(), &attributes());
        let check_path = |verb: &str| {
            let of = CheckTarget::Path("/x".into());
            checks.0.authorize(&Check { service_account: None, verb: verb.into(), of })
        };
        let mut passes = 0;
        let answers = checks
            .resolve(|| {
                passes += 1;
                ["get", "list", "get", "watch"].map(check_path)
            })
            .await;
        assert_eq!(answers.each_ref().map(|answer| answer.allowed), [true, false, true, false]);
        assert_eq!(answers.each_ref().map(|answer| answer.reason.as_str()), ["may", "", "may", "no"]);
        assert_eq!(answers[1].error.as_deref(), Some("broken"));
        assert_eq!((passes, slow.0.load(Ordering::Relaxed)), (2, 3));
        // A second evaluation uses the cached decisions.
        checks.resolve(|| check_path("get")).await;
        assert_eq!(slow.0.load(Ordering::Relaxed), 3);
    }
}
