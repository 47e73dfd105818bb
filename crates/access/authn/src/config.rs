//! Trusted token issuers and anonymous access, as the file of `--authentication-config` configures them.

mod read;
#[cfg(test)]
mod tests;
mod validate;

use binnacle_meta::{FieldErrors, aggregate};

use crate::claim_rules::Rules;

/// Errors of a configuration, in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{0}")]
    Syntax(String),
    #[error("invalid authentication configuration: {}", aggregate(.0))]
    Invalid(FieldErrors),
}

/// `AuthenticationConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfig {
    /// The first entry whose issuer a token names authenticates it.
    pub jwt: Vec<JwtAuthenticator>,
    /// `None` if the flag decides.
    pub anonymous: Option<AnonymousConfig>,
}

/// The requests that are accepted without a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousConfig {
    pub enabled: bool,
    /// Exactly the paths that are accepted; all if there are none.
    pub paths: Vec<String>,
}

/// Tokens of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtAuthenticator {
    pub issuer: Issuer,
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    pub claim_mappings: ClaimMappings,
    pub user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// An https URL, exactly as tokens name it.
    pub url: String,
    /// The URL of the discovery document, if it is not below `url`; empty otherwise.
    pub discovery_url: String,
    /// PEM text of the authorities for the provider; those of the system if empty.
    pub certificate_authority: String,
    /// A token must be made for one of these audiences.
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    /// The network through which the provider is reached; empty for direct connections.
    pub egress_selector_type: String,
}

/// Either a claim and the value it must have, or an expression that must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimValidationRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

/// The mappings from claims to a user. Empty ones are not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMappings {
    pub username: PrefixedClaimOrExpression,
    pub groups: PrefixedClaimOrExpression,
    pub uid: ClaimOrExpression,
    pub extra: Vec<ExtraMapping>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixedClaimOrExpression {
    pub claim: String,
    /// Required beside `claim`, even if it is empty.
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOrExpression {
    pub claim: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    pub key: String,
    pub value_expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserValidationRule {
    pub expression: String,
    pub message: String,
}

/// A configuration without mistakes, its expressions compiled.
pub struct Checked {
    pub(crate) config: AuthenticationConfig,
    /// For each issuer.
    pub(crate) rules: Vec<Rules>,
}

impl AuthenticationConfig {
    /// Parses a file's contents; [`AuthenticationConfig::check`] validates them.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        read::parse(text)
    }

    /// Validates the configuration and compiles its expressions. `disallowed` are the issuers of service account
    /// tokens, which another authenticator accepts.
    pub fn check(self, disallowed: &[String]) -> Result<Checked, ConfigError> {
        self.check_all(disallowed, FieldErrors::new())
    }

    /// Checks a file that replaces another: its anonymous access must be the same.
    pub(crate) fn check_reload(
        self,
        disallowed: &[String],
        first: Option<&AnonymousConfig>,
    ) -> Result<Checked, ConfigError> {
        let mut errors = FieldErrors::new();
        if self.anonymous.as_ref() != first {
            errors.push(validate::anonymous_changed());
        }
        self.check_all(disallowed, errors)
    }

    fn check_all(self, disallowed: &[String], reload_errors: FieldErrors) -> Result<Checked, ConfigError> {
        let (rules, mut errors) = validate::validate(&self, disallowed);
        errors.extend(reload_errors);
        if errors.is_empty() { Ok(Checked { config: self, rules }) } else { Err(ConfigError::Invalid(errors)) }
    }
}

impl Checked {
    /// The configuration of anonymous access, if there is one.
    pub fn anonymous(&self) -> Option<&AnonymousConfig> {
        self.config.anonymous.as_ref()
    }
}
