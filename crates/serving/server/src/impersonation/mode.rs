//! The modes of impersonation, and their names.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A pod impersonates the node on which it runs.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Any user other than nodes and service accounts.
    UserInfo,
    /// The legacy mode, which does not depend on the request.
    Legacy,
}

impl Mode {
    /// Returns the verb of the mode in audit events; empty for the legacy mode.
    pub(super) fn constraint(self) -> &'static str {
        match self {
            Self::Legacy => "",
            mode => mode.verb(),
        }
    }

    /// Returns the label of the mode in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            mode => mode.verb().trim_start_matches("impersonate:"),
        }
    }

    /// Returns the verb for impersonating a user.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// Returns the verb for running a request as a user.
    pub(super) fn verb_on(self, verb: &str) -> String {
        format!("impersonate-on:{}:{verb}", self.label())
    }
}
