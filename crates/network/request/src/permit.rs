//! Decisions of authorizers, and permits, which prove that a request was allowed.

use binnacle_meta::Text;

/// The decision of an authorizer, with its reason (perhaps empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Text),
    Deny(Text),
    /// Defers to the next authorizer; after the last one, the request is denied.
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

    /// Returns the label for metrics and audit annotations: `allow`, `deny` or `no-opinion`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow(_) => "allow",
            Self::Deny(_) => "deny",
            Self::NoOpinion(_) => "no-opinion",
        }
    }
}

/// The action that is authorized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub verb: Text,
    pub group: Text,
    pub resource: Text,
    pub subresource: Text,
    /// Empty for cluster-scoped actions.
    pub namespace: Text,
    /// Empty if the request names no object.
    pub name: Text,
}

/// Proof that a request was allowed. A handler that requires a permit cannot be called without authorization.
///
/// Clippy restricts its construction to the call of the authorizers (see `clippy.toml`).
#[derive(Clone, Debug)]
pub struct Permit(Action);

impl Permit {
    /// Returns a permit for an action if the decision allows it.
    pub fn from_decision(decision: &Decision, action: Action) -> Option<Self> {
        decision.is_allow().then_some(Self(action))
    }

    /// Returns a permit to create objects if the request was allowed to.
    pub fn for_create(&self) -> Option<CreatePermit> {
        let Action { verb, subresource, .. } = &self.0;
        (verb == "create" && subresource.is_empty()).then(|| CreatePermit(Grant::To(self.0.clone())))
    }
}

/// Proof that objects of a resource may be created, in one namespace and possibly with one name only. Every create
/// requires it: a permit to update or patch is not sufficient.
#[derive(Clone, Debug)]
pub struct CreatePermit(Grant);

#[derive(Clone, Debug)]
enum Grant {
    Server,
    To(Action),
}

impl CreatePermit {
    /// Returns the server's own permit to create the bootstrap objects of a cluster. It must never be used on behalf of
    /// a caller.
    pub fn system() -> Self {
        Self(Grant::Server)
    }

    /// Returns true if the permit covers the object. An empty name means that the name is not known yet.
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
    fn permits_create_only_after_an_allowed_create() {
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
    fn covers_only_the_authorized_namespace_and_name() {
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
