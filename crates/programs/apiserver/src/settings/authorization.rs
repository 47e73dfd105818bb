//! Settings of authorization.

use std::path::PathBuf;

use binnacle_authz::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode};

#[derive(Clone, Debug)]
pub struct Authorization {
    pub source: Source,
    /// The policy file of ABAC, also if a configuration file enables ABAC.
    pub policy_file: Option<PathBuf>,
    pub always_allow_paths: Vec<String>,
}

/// The source of the list of authorizers.
#[derive(Clone, Debug)]
pub enum Source {
    Flags(AuthorizationConfig),
    File(PathBuf),
}

impl Authorization {
    /// Returns true if flags allow all requests of all users.
    pub fn allows_everything(&self) -> bool {
        match &self.source {
            Source::Flags(config) => {
                config.authorizers.iter().any(|authorizer| authorizer.mode == AuthorizerMode::AlwaysAllow)
            }
            Source::File(_) => false,
        }
    }
}

impl Default for Authorization {
    /// Authorizes nodes by their pods, and all other users by roles.
    fn default() -> Self {
        let authorizers = [AuthorizerMode::Node, AuthorizerMode::Rbac].map(AuthorizerConfig::of).to_vec();
        Self {
            source: Source::Flags(AuthorizationConfig { authorizers }),
            policy_file: None,
            always_allow_paths: Vec::new(),
        }
    }
}
