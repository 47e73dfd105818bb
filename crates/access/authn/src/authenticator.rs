//! The authenticator traits, for requests and for bare tokens.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_jwt::Token;
use binnacle_meta::{Text, aggregate};
use binnacle_request::{BoxFuture, ConnectionInfo, User};
use binnacle_work::{BudgetError, allocate, pace};
use http::HeaderMap;

/// The parts of a request that authenticators use.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    pub headers: &'a HeaderMap,
    pub connection: &'a ConnectionInfo,
    /// The request path, since anonymous access may be limited to some paths.
    pub path: &'a str,
    /// The accepted audiences: a credential must be valid for one of them. If empty, credentials for any audience are
    /// accepted.
    pub audiences: &'a [Text],
}

/// Authenticates requests.
pub trait Authenticator: Send + Sync {
    /// Returns `None` if the request has no credential of this kind, and an error if it has an invalid one.
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>>;
}

/// Authenticates tokens.
pub trait TokenAuthenticator: Send + Sync {
    /// Returns `None` if the token is not of this kind, and an error if it is but is invalid. `audiences` are as in
    /// [`Credentials`].
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>>;
}

impl<T: TokenAuthenticator + ?Sized> TokenAuthenticator for Arc<T> {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        (**self).authenticate_token(token, audiences)
    }
}

/// An authenticated user, and the audiences of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationResponse {
    pub user: Arc<User>,
    /// The requested audiences that the credential is valid for; empty if it is not bound to audiences.
    pub audiences: Vec<Text>,
    pub notes: Notes,
    /// True if the result depends on objects that may be deleted at any time, so that it is only valid for this
    /// request.
    pub live: bool,
}

/// Warnings and audit annotations about the use of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Messages for `Warning` headers.
    pub warnings: Vec<Text>,
    /// Annotations for the audit event.
    pub annotations: Vec<(Text, Text)>,
}

/// The reason why a credential was rejected, for the log and for TokenReviews. The client only ever sees
/// `Unauthorized`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthnError(pub String);

impl AuthenticationResponse {
    /// Returns a user whose credential is not bound to audiences.
    pub fn new(user: Arc<User>) -> Self {
        Self { user, audiences: Vec::new(), notes: Notes::default(), live: false }
    }

    /// Returns a user whose token is valid for all of the server's audiences, `own`; `None` if `requested` has none of
    /// them.
    pub(crate) fn for_any_audience(user: Arc<User>, own: &[Text], requested: &[Text]) -> Option<Self> {
        let audiences = intersection(own, requested);
        (requested.is_empty() || !audiences.is_empty()).then(|| Self { audiences, ..Self::new(user) })
    }
}

impl AuthnError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Aggregates errors into one, without duplicates and in order.
    pub(crate) fn all(errors: &[String]) -> Option<Self> {
        (!errors.is_empty()).then(|| Self(aggregate(errors)))
    }
}

/// Returns the error for a credential that exceeds the request's budget.
pub(crate) fn exceeded(exceeded: BudgetError) -> AuthnError {
    AuthnError(exceeded.to_string())
}

/// Parses a JWT; `None` if the text is not one. Charges the work, but not the memory.
pub(crate) fn parse(text: &str) -> Option<Token> {
    // Arrays of short numbers are the most expensive: ten nanoseconds per number.
    const BYTES_PER_STEP: usize = 2;
    pace((text.len() / BYTES_PER_STEP) as u64);
    Token::parse(text)
}

/// Charges the memory of a parsed JWT, since its verification may wait for keys or claims.
pub(crate) fn allocate_parsed(token: &str) -> Result<(), AuthnError> {
    // Arrays of short numbers take the most.
    const BYTES_PER_BYTE: usize = 16;
    allocate(token.len() * BYTES_PER_BYTE).map_err(exceeded)
}

/// Returns the elements of `first` that are also in `second`.
pub(crate) fn intersection(first: &[Text], second: &[Text]) -> Vec<Text> {
    // Tokens and TokenReviews may have thousands of audiences.
    const FEW: usize = 64;
    const STEPS_PER_TEXT: usize = 10;
    if first.len().saturating_mul(second.len()) <= FEW {
        return first.iter().filter(|text| second.contains(text)).cloned().collect();
    }
    pace(((first.len() + second.len()) * STEPS_PER_TEXT) as u64);
    let second: HashSet<&Text> = second.iter().collect();
    first.iter().filter(|text| second.contains(text)).cloned().collect()
}

/// Adds the group `system:authenticated`, unless the user is anonymous or already in it or in `system:unauthenticated`.
pub(crate) fn with_authenticated_group(mut user: User) -> Arc<User> {
    if user.name != User::ANONYMOUS && !user.is_in(User::AUTHENTICATED) && !user.is_in(User::UNAUTHENTICATED) {
        user.groups.push(Text::new_static(User::AUTHENTICATED));
    }
    Arc::new(user)
}

#[cfg(test)]
mod tests {
    use binnacle_work::{WorkBudget, WorkLimits};

    use super::*;

    #[test]
    fn charges_work_and_memory_of_parsed_tokens() {
        let budget = WorkBudget::new(WorkLimits { steps: 1_000_000, memory: 1 << 20 });
        assert!(budget.enter(|| parse(&"x".repeat(60_000))).is_none());
        assert!(budget.steps() >= 30_000);
        assert!(budget.enter(|| allocate_parsed(&"x".repeat(60_000))).is_ok());
        assert!(budget.enter(|| allocate_parsed(&"x".repeat(60_000))).is_err());
        assert!(budget.memory() >= 60_000 * size_of::<serde_json::Value>() / 2);
    }

    #[test]
    fn intersects_long_lists_in_linear_time() {
        let texts = |range: std::ops::Range<u32>| range.map(|n| Text::from(n.to_string())).collect::<Vec<_>>();
        assert_eq!(intersection(&texts(0..5), &texts(3..8)), texts(3..5));
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        let common = budget.enter(|| intersection(&texts(0..50_000), &texts(49_000..100_000)));
        assert_eq!(common, texts(49_000..50_000));
        assert!((1_000_000..2_000_000).contains(&budget.steps()), "{}", budget.steps());
    }
}
