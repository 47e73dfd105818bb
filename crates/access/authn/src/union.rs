//! Combinators of authenticators.

use binnacle_request::BoxFuture;

use crate::{AuthenticationResponse, Authenticator, AuthnError, Credentials};

/// Tries each authenticator in order until one accepts the request. An invalid credential does not stop the search: a
/// client may send a certificate of an unknown authority together with a valid token.
pub struct Union {
    members: Vec<Box<dyn Authenticator>>,
}

impl Union {
    pub fn new(members: Vec<Box<dyn Authenticator>>) -> Self {
        Self { members }
    }
}

impl Authenticator for Union {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let mut errors: Vec<String> = Vec::new();
            for member in &self.members {
                match member.authenticate(credentials).await {
                    Ok(Some(response)) => return Ok(Some(response)),
                    Ok(None) => {}
                    Err(error) => errors.push(error.0),
                }
            }
            AuthnError::all(&errors).map_or(Ok(None), Err)
        })
    }
}

/// Tries the second authenticator only if the first has no opinion, so that a request with an invalid credential is
/// rejected instead of anonymous.
pub struct FailFast<A, B>(pub A, pub B);

impl<A: Authenticator, B: Authenticator> Authenticator for FailFast<A, B> {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            match self.0.authenticate(credentials).await? {
                Some(response) => Ok(Some(response)),
                None => self.1.authenticate(credentials).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_request::{ConnectionInfo, User};
    use http::HeaderMap;

    use super::*;
    use crate::Anonymous;

    type FixedOutcome = Result<Option<&'static str>, &'static str>;

    struct FixedAuthenticator(FixedOutcome);

    impl Authenticator for FixedAuthenticator {
        fn authenticate<'a>(
            &'a self,
            _: Credentials<'a>,
        ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
            Box::pin(async {
                match self.0 {
                    Ok(name) => Ok(name.map(|name| AuthenticationResponse::new(Arc::new(User::new(name, &[]))))),
                    Err(message) => Err(AuthnError(message.to_owned())),
                }
            })
        }
    }

    #[tokio::test]
    async fn first_success_wins_and_errors_are_aggregated() {
        let cases: &[(&[FixedOutcome], Result<&str, &str>)] = &[
            (&[], Ok(User::ANONYMOUS)),
            (&[Ok(None)], Ok(User::ANONYMOUS)),
            (&[Ok(None), Ok(Some("a")), Ok(Some("b"))], Ok("a")),
            (&[Err("bad"), Ok(Some("a"))], Ok("a")),
            (&[Err("bad"), Ok(None)], Err("bad")),
            (&[Err("bad"), Err("worse"), Err("bad")], Err("[bad, worse]")),
        ];
        for (members, want) in cases {
            let members = members
                .iter()
                .map(|outcome| Box::new(FixedAuthenticator(*outcome)) as Box<dyn Authenticator>)
                .collect();
            let both = FailFast(Union::new(members), Anonymous::new());
            let connection = ConnectionInfo::default();
            let headers = HeaderMap::new();
            let credentials = Credentials { headers: &headers, connection: &connection, path: "/", audiences: &[] };
            let result = both.authenticate(credentials).await;
            match want {
                Ok(name) => assert_eq!(result.unwrap().unwrap().user.name, *name),
                Err(message) => assert_eq!(result.unwrap_err().0, *message),
            }
        }
    }
}
