//! Bootstrap tokens, `ID.SECRET`, which authenticate a new node until it has a certificate. They are stored in secrets
//! of the `kube-system` namespace.

use std::sync::Arc;

use binnacle_crypto::sha256;
use binnacle_meta::{Text, Time};
use binnacle_request::{BoxFuture, User};

use crate::authenticator::with_authenticated_group;
use crate::service_account::seconds_now;
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const DEFAULT_GROUP: &str = "system:bootstrappers";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// The fields of a token's secret. Missing fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapSecret {
    pub kind: Text,
    pub deleted: bool,
    pub id: Text,
    pub secret: Text,
    pub expiration: Text,
    pub usage_authentication: Text,
    pub extra_groups: Text,
}

/// Reads secrets of the `kube-system` namespace.
pub trait BootstrapSecrets: Send + Sync {
    /// Returns the secret with this name; `None` if it does not exist.
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<BootstrapSecret>, AuthnError>>;
}

/// Authenticates bootstrap tokens.
pub struct BootstrapTokens {
    secrets: Arc<dyn BootstrapSecrets>,
    audiences: Vec<Text>,
}

impl BootstrapTokens {
    pub fn new(secrets: Arc<dyn BootstrapSecrets>, audiences: Vec<Text>) -> Self {
        Self { secrets, audiences }
    }

    async fn authenticate(&self, token: &str) -> Result<Option<Arc<User>>, AuthnError> {
        let Some((id, secret)) = split(token) else { return Ok(None) };
        let name = format!("bootstrap-token-{id}");
        let Some(stored) = self.secrets.secret(&name).await? else { return Ok(None) };
        match validate(&stored, id, secret) {
            Ok(groups) => {
                let name = format!("system:bootstrap:{id}").into();
                Ok(Some(with_authenticated_group(User { name, groups, ..User::default() })))
            }
            // The reason is logged but not returned to the client.
            Err(why) => {
                tracing::debug!("Bootstrap secret kube-system/{name} matching bearer token {why}");
                Ok(None)
            }
        }
    }
}

impl TokenAuthenticator for BootstrapTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let user = self.authenticate(token).await?;
            let response =
                user.and_then(|user| AuthenticationResponse::for_any_audience(user, &self.audiences, audiences));
            Ok(response.map(|response| AuthenticationResponse { live: true, ..response }))
        })
    }
}

/// Returns the groups of the token's user, or the reason why the token is rejected.
fn validate(stored: &BootstrapSecret, id: &str, secret: &str) -> Result<Vec<Text>, String> {
    if stored.deleted {
        return Err("is deleted and awaiting removal".to_owned());
    }
    if stored.kind != TYPE {
        return Err(format!("has invalid type, expected {TYPE}."));
    }
    // Compare digests, so that the time does not reveal how much of the secret matches.
    if sha256(&stored.secret) != sha256(secret) {
        return Err("has invalid value for key token-secret.".to_owned());
    }
    if stored.id != id {
        return Err("has invalid value for key token-id.".to_owned());
    }
    if !stored.expiration.is_empty() {
        let expires =
            Time::parse(&stored.expiration).map_err(|error| format!("has an unparseable expiration: {error}"))?;
        if (expires.unix_seconds() as f64) < seconds_now() {
            return Err("has expired".to_owned());
        }
    }
    if stored.usage_authentication != "true" {
        return Err("not marked usage-bootstrap-authentication=true.".to_owned());
    }
    let mut groups = vec![Text::new_static(DEFAULT_GROUP)];
    for group in stored.extra_groups.split(',').filter(|_| !stored.extra_groups.is_empty()) {
        if !is_bootstrap_group(group) {
            return Err(format!("has invalid value for key auth-extra-groups: bootstrap group {group:?} is invalid"));
        }
        groups.push(group.into());
    }
    groups.sort();
    groups.dedup();
    Ok(groups)
}

fn split(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (plain(id, ID_LENGTH) && plain(secret, SECRET_LENGTH)).then_some((id, secret))
}

/// Returns true for `system:bootstrappers:` followed by up to 256 characters of `[a-z0-9:-]` that end with a letter or
/// digit.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b':' | b'-');
    let last = rest.bytes().next_back().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    rest.len() <= 256 && last && rest.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Secrets(BootstrapSecret);

    impl BootstrapSecrets for Secrets {
        fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<BootstrapSecret>, AuthnError>> {
            let stored = (name == "bootstrap-token-abcdef").then(|| self.0.clone());
            Box::pin(async { Ok(stored) })
        }
    }

    #[tokio::test]
    async fn accepts_only_valid_tokens() {
        const GOOD: &str = "abcdef.0123456789abcdef";
        let secret = || BootstrapSecret {
            kind: TYPE.into(),
            id: "abcdef".into(),
            secret: "0123456789abcdef".into(),
            usage_authentication: "true".into(),
            ..BootstrapSecret::default()
        };
        let response = Some("system:bootstrap:abcdef system:bootstrappers,system:authenticated");
        let with_groups = "system:bootstrap:abcdef system:bootstrappers,system:bootstrappers:a:b,system:authenticated";
        for (token, secret, want) in [
            (GOOD, secret(), response),
            ("abcdef.0123456789abcdeg", secret(), None),
            ("abcdeg.0123456789abcdef", secret(), None),
            ("ABCDEF.0123456789abcdef", secret(), None),
            ("abcdef.0123456789abcde", secret(), None),
            ("abcdef.0123456789abcdef.", secret(), None),
            ("", secret(), None),
            (GOOD, BootstrapSecret { kind: "Opaque".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { deleted: true, ..secret() }, None),
            (GOOD, BootstrapSecret { id: "other0".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { secret: "".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { usage_authentication: "True".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { expiration: "2001-01-01T00:00:00Z".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { expiration: "tomorrow".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { expiration: "2999-01-01T00:00:00Z".into(), ..secret() }, response),
            (GOOD, BootstrapSecret { extra_groups: "system:bootstrappers:a:b".into(), ..secret() }, Some(with_groups)),
            (GOOD, BootstrapSecret { extra_groups: "system:masters".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { extra_groups: "system:bootstrappers:a,".into(), ..secret() }, None),
            (GOOD, BootstrapSecret { extra_groups: "system:bootstrappers:-".into(), ..secret() }, None),
        ] {
            let tokens = BootstrapTokens::new(Arc::new(Secrets(secret.clone())), Vec::new());
            let response = tokens.authenticate_token(token, &[]).await.unwrap();
            let shown = response.map(|response| format!("{} {}", response.user.name, response.user.groups.join(",")));
            assert_eq!(shown.as_deref(), want, "{token} {secret:?}");
        }
    }
}
