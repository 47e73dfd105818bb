//! The answer of authorization, and the witness that it was yes.

use binnacle_meta::Text;

/// The decision of an authorizer, with its reason (which may be empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Text),
    Deny(Text),
    /// The next authorizer is asked; at the end of the list this denies.
    NoOpinion(Text),
}

impl Decision {
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason) => reason,
        }
    }

    /// The label of metrics and audit annotations: `allow`, `deny` or `no-opinion`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow(_) => "allow",
            Self::Deny(_) => "deny",
            Self::NoOpinion(_) => "no-opinion",
        }
    }
}

/// The part of a request that is decided about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub verb: Text,
    pub group: Text,
    pub resource: Text,
    pub subresource: Text,
    /// Empty for what is in no namespace.
    pub namespace: Text,
    /// Empty where the request names no object.
    pub name: Text,
}

/// Proof that a request was allowed. A handler that takes one cannot be reached by a request that nobody decided on.
///
/// Clippy refuses to make one elsewhere than where the authorizers are asked (see `clippy.toml`).
#[derive(Clone, Debug)]
pub struct Permit(Action);

impl Permit {
    /// A permit for an action, if the decision is to allow it.
    pub fn from_decision(decision: &Decision, action: Action) -> Option<Self> {
        decision.is_allow().then_some(Self(action))
    }

    /// The right to create objects, if that is what was allowed.
    pub fn for_create(&self) -> Option<CreatePermit> {
        let Action { verb, subresource, .. } = &self.0;
        (verb == "create" && subresource.is_empty()).then(|| CreatePermit(Grant::To(self.0.clone())))
    }
}

/// Proof that objects of a resource may be created, in a namespace and perhaps under one name only. Nothing is written
/// where nothing was without one: neither a permit to update nor one to patch is enough.
#[derive(Clone, Debug)]
pub struct CreatePermit(Grant);

#[derive(Clone, Debug)]
enum Grant {
    Server,
    To(Action),
}

impl CreatePermit {
    /// The right of the server to create by itself what clusters have. It must never be used on behalf of a caller.
    pub fn system() -> Self {
        Self(Grant::Server)
    }

    /// True when the permit is for such an object. The empty name is one that is not known yet.
    pub fn covers(&self, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
        match &self.0 {
            Grant::Server => true,
            Grant::To(action) => {
                action.group == group
                    && action.resource == resource
                    && action.namespace == namespace
                    && (action.name.is_empty() || action.name == name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "permits are what is tested")]

    use super::*;

    fn action(verb: &str, subresource: &str, name: &str) -> Action {
        Action {
            verb: verb.into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: subresource.into(),
            namespace: "n".into(),
            name: name.into(),
        }
    }

    #[test]
    fn only_an_allowed_create_permits_to_create() {
        let allow = Decision::Allow(Text::default());
        for (decision, verb, subresource, want) in [
            (allow.clone(), "create", "", true),
            (allow.clone(), "create", "scale", false),
            (allow.clone(), "update", "", false),
            (allow.clone(), "patch", "", false),
            (allow, "*", "", false),
            (Decision::NoOpinion(Text::default()), "create", "", false),
            (Decision::Deny(Text::default()), "create", "", false),
        ] {
            let permit = Permit::from_decision(&decision, action(verb, subresource, ""));
            let create = permit.and_then(|permit| permit.for_create());
            assert_eq!(create.is_some(), want, "{decision:?} {verb} {subresource}");
        }
    }

    #[test]
    fn a_permit_covers_nothing_but_its_own() {
        let permit = |name| {
            let permit = Permit::from_decision(&Decision::Allow(Text::default()), action("create", "", name));
            permit.unwrap().for_create().unwrap()
        };
        for (own, [group, resource, namespace, name], want) in [
            ("", ["apps", "deployments", "n", "a"], true),
            ("", ["apps", "deployments", "n", ""], true),
            ("a", ["apps", "deployments", "n", "a"], true),
            ("a", ["apps", "deployments", "n", "b"], false),
            ("", ["apps", "deployments", "m", "a"], false),
            ("", ["apps", "daemonsets", "n", "a"], false),
            ("", ["", "deployments", "n", "a"], false),
        ] {
            assert_eq!(permit(own).covers(group, resource, namespace, name), want, "{own} {group} {resource} {name}");
        }
        assert!(CreatePermit::system().covers("", "secrets", "n", "a"));
    }
}
