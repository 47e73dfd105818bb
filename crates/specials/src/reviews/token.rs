//! TokenReview: whose token something is, asked by whoever was handed it.

use std::sync::Arc;

use binnacle_authn::{Authenticator, Credentials};
use binnacle_endpoints::{Answer, Special, SpecialCall};
use binnacle_meta::{Status, Text};
use binnacle_registry::admission::Admission;
use binnacle_request::{BoxFuture, ConnectionInfo};
use binnacle_schema::{Object, Value};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::user;
use crate::posted::{Kind, Posted};

const KIND: Kind = Kind::new("authentication.k8s.io", "v1", "TokenReview");
/// What the authenticator says of a token that nobody knows, or that was not made for whom it should be.
const INVALID: &str = "invalid bearer token";

pub(crate) struct TokenReview {
    admission: Arc<dyn Admission>,
    authenticator: Arc<dyn Authenticator>,
    audiences: Vec<Text>,
}

impl TokenReview {
    pub(crate) fn new(
        admission: Arc<dyn Admission>,
        authenticator: Arc<dyn Authenticator>,
        audiences: Vec<Text>,
    ) -> Self {
        Self { admission, authenticator, audiences }
    }

    async fn review(&self, call: SpecialCall) -> Answer {
        let posted = Posted::read(call, &KIND, &self.admission).await?;
        let token = posted.object.str_at(&["spec", "token"]);
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        posted.validate(&self.admission).await?;
        let wanted: Vec<&str> =
            posted.object.list_at(&["spec", "audiences"]).iter().filter_map(Value::as_str).collect();
        let mut review = posted.object.clone();
        review.make_object().insert("status", self.status(token, &wanted).await);
        posted.respond(review)
    }

    async fn status(&self, token: &str, wanted: &[&str]) -> Object {
        let mut status = Object::new();
        status.insert("user", Object::new());
        // Tokens are good for every audience of this server, and for no other.
        let asked = !wanted.is_empty() || !self.audiences.is_empty();
        let audiences: Vec<Text> =
            self.audiences.iter().filter(|own| wanted.is_empty() || wanted.contains(&own.as_str())).cloned().collect();
        if asked && audiences.is_empty() {
            status.insert("error", INVALID);
            return status;
        }
        // A token that cannot stand in a header is nobody's.
        let Ok(header) = HeaderValue::from_str(&format!("Bearer {token}")) else {
            status.insert("error", INVALID);
            return status;
        };
        let headers: HeaderMap = [(AUTHORIZATION, header)].into_iter().collect();
        let connection = ConnectionInfo::default();
        match self.authenticator.authenticate(Credentials { headers: &headers, connection: &connection }).await {
            Ok(Some(holder)) => {
                status.insert("authenticated", true);
                status.insert("user", user::info(&holder));
                if !audiences.is_empty() {
                    status.insert("audiences", audiences);
                }
            }
            Ok(None) => {}
            Err(error) => {
                status.insert("error", error.0);
            }
        }
        status
    }
}

impl Special for TokenReview {
    fn handle(&self, call: SpecialCall) -> BoxFuture<'_, Answer> {
        Box::pin(self.review(call))
    }
}
