//! The configuration of JWT issuers and anonymous access (`--authentication-config`).

mod read;
#[cfg(test)]
mod tests;
mod validate;

use binnacle_meta::{FieldErrors, aggregate};

use crate::claim_rules::Rules;

/// An error in a configuration, with kube-apiserver's message.
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
    /// A token is authenticated by the first entry with its issuer.
    pub jwt: Vec<JwtAuthenticator>,
    /// `None` if `--anonymous-auth` decides.
    pub anonymous: Option<AnonymousConfig>,
}

/// The configuration of anonymous requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousConfig {
    pub enabled: bool,
    /// The exact paths of accepted requests; all paths if empty.
    pub paths: Vec<String>,
}

/// The configuration of an issuer's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtAuthenticator {
    pub issuer: Issuer,
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    pub claim_mappings: ClaimMappings,
    pub user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// An https URL, which must equal the `iss` claim of tokens.
    pub url: String,
    /// The URL of the discovery document, if it is not below `url`; empty otherwise.
    pub discovery_url: String,
    /// The authorities of the provider as PEM; those of the system if empty.
    pub certificate_authority: String,
    /// A token must have one of these audiences.
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    /// The egress selector for connections to the provider; empty for direct connections.
    pub egress_selector_type: String,
}

/// Either a claim and its required value, or an expression that must be true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimValidationRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

/// The mappings from claims to a user.
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
    /// Required if `claim` is set, but may be empty.
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

/// A valid configuration and its compiled expressions.
pub struct ValidatedConfig {
    pub(crate) config: AuthenticationConfig,
    /// One per issuer.
    pub(crate) rules: Vec<Rules>,
}

impl AuthenticationConfig {
    /// Parses the contents of a file, which [`AuthenticationConfig::check`] validates.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        read::parse(text)
    }

    /// Validates the configuration and compiles its expressions. `disallowed` are the issuers of service account
    /// tokens, which have their own authenticator.
    pub fn check(self, disallowed: &[String]) -> Result<ValidatedConfig, ConfigError> {
        self.check_all(disallowed, FieldErrors::new())
    }

    /// Validates a configuration that replaces another one: anonymous access must not change.
    pub(crate) fn check_reload(
        self,
        disallowed: &[String],
        first: Option<&AnonymousConfig>,
    ) -> Result<ValidatedConfig, ConfigError> {
        let mut errors = FieldErrors::new();
        if self.anonymous.as_ref() != first {
            errors.push(validate::anonymous_changed());
        }
        self.check_all(disallowed, errors)
    }

    fn check_all(self, disallowed: &[String], reload_errors: FieldErrors) -> Result<ValidatedConfig, ConfigError> {
        let (rules, mut errors) = validate::validate(&self, disallowed);
        errors.extend(reload_errors);
        if errors.is_empty() { Ok(ValidatedConfig { config: self, rules }) } else { Err(ConfigError::Invalid(errors)) }
    }
}

impl ValidatedConfig {
    /// Returns the configuration of anonymous access, if there is one.
    pub fn anonymous(&self) -> Option<&AnonymousConfig> {
        self.config.anonymous.as_ref()
    }
}
