//! A union of authorizers.

use binnacle_meta::{Text, aggregate};
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Authorizer, AuthzError, Rules};

/// Tries each authorizer in order until one allows or denies.
pub struct Union {
    members: Vec<Box<dyn Authorizer>>,
}

impl Union {
    pub fn new(members: Vec<Box<dyn Authorizer>>) -> Self {
        Self { members }
    }
}

impl Authorizer for Union {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            let mut errors: Vec<String> = Vec::new();
            let mut reasons: Vec<String> = Vec::new();
            for member in &self.members {
                match member.authorize(attributes).await {
                    Ok(Decision::NoOpinion(reason)) if reason.is_empty() => {}
                    Ok(Decision::NoOpinion(reason)) => reasons.push(reason.to_string()),
                    Ok(decision) => return Ok(decision),
                    Err(error) if error.denies => return Err(error),
                    Err(AuthzError { message, reason, .. }) => {
                        errors.push(message);
                        if !reason.is_empty() {
                            reasons.push(reason.to_string());
                        }
                    }
                }
            }
            let reason = Text::from(reasons.join("\n"));
            if errors.is_empty() {
                return Ok(Decision::NoOpinion(reason));
            }
            Err(AuthzError { message: aggregate(&errors), reason, denies: false })
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move {
            let mut rules = Rules::default();
            for member in &self.members {
                rules.extend(member.rules_for(user, namespace).await);
            }
            rules
        })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::RequestInfo;

    use super::*;

    struct FixedAuthorizer(Result<Decision, AuthzError>);

    impl Authorizer for FixedAuthorizer {
        fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
            Box::pin(async { self.0.clone() })
        }
    }

    #[tokio::test]
    async fn first_decision_wins_and_reasons_and_errors_are_joined() {
        let allow = || Ok(Decision::Allow("yes".into()));
        let deny = || Ok(Decision::Deny("never".into()));
        let none = |reason: &str| Ok(Decision::NoOpinion(reason.into()));
        let fail = || Err(AuthzError::new("down"));
        let veto = || Err(AuthzError::denying("down", "no"));
        let other = || Err(AuthzError::new("gone"));
        let cases = [
            (vec![], none("")),
            (vec![none("a"), none(""), none("b")], none("a\nb")),
            (vec![none("a"), allow(), deny()], allow()),
            (vec![deny(), allow()], deny()),
            (vec![fail(), allow()], allow()),
            (vec![fail(), none("a")], Err(AuthzError { reason: "a".into(), ..AuthzError::new("down") })),
            (vec![fail(), fail()], fail()),
            (vec![fail(), other()], Err(AuthzError::new("[down, gone]"))),
            (vec![none("a"), veto(), allow()], veto()),
        ];
        for (members, want) in cases {
            let union = Union::new(
                members.into_iter().map(|result| Box::new(FixedAuthorizer(result)) as Box<dyn Authorizer>).collect(),
            );
            let (info, user) = (RequestInfo::default(), User::default());
            assert_eq!(union.authorize(&Attributes::of(&info, &user)).await, want);
        }
    }
}
