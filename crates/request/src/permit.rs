//! The answer of authorization, and the witness that it was yes.

use binnacle_meta::Text;

/// What an authorizer says about a request, with its reason (which may be empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Text),
    Deny(Text),
    /// The next authorizer is asked; at the end of the list this is a no.
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

/// Proof that a request was allowed. A handler that takes one cannot be reached by a request that nobody decided on.
#[derive(Clone, Debug)]
pub struct Permit(());

impl Permit {
    /// A permit, if the decision is to allow; the only way to make one.
    pub fn from_decision(decision: &Decision) -> Option<Self> {
        decision.is_allow().then_some(Self(()))
    }
}
