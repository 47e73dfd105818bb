//! TokenReview: the user of a token that another server has received.

use std::sync::Arc;

use binnacle_authn::{Authenticator, Credentials};
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::authentication::v1::{self, TokenReviewSpec as Spec, TokenReviewStatus};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Status, Text};
use binnacle_registry::admission::Admission;
use binnacle_request::{BoxFuture, ConnectionInfo};
use binnacle_schema::{Value, value};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::user;
use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind::new("authentication.k8s.io", "v1", "TokenReview");
/// The authenticators' error for an unknown token.
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

    async fn review(&self, call: SubresourceCall) -> HandlerResult {
        let posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let request = FieldRef::<v1::TokenReview>::root(&posted.object);
        let spec = request.at(v1::TokenReview::SPEC);
        let token = spec.at(Spec::TOKEN).str();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        posted.validate(&self.admission).await?;
        let mut audiences: Vec<Text> = spec.at(Spec::AUDIENCES).strs().map(Text::from).collect();
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }
        let mut review = Value::clone(&posted.object);
        FieldMut::root(&mut review).set(v1::TokenReview::STATUS, self.status(token, &audiences).await?);
        posted.respond(review)
    }

    /// Returns the result of the server's own authenticators for a request with only the token.
    async fn status(&self, token: &str, audiences: &[Text]) -> Result<Value, Status> {
        let mut object = value!({"user": {}});
        let mut status = FieldMut::<TokenReviewStatus>::root(&mut object);
        // Trailing white space of a header is ignored. A token that is not a valid header value is unknown.
        let Ok(header) = HeaderValue::from_str(&format!("Bearer {}", token.trim_end())) else {
            status.set(TokenReviewStatus::ERROR, INVALID);
            return Ok(object);
        };
        let headers: HeaderMap = [(AUTHORIZATION, header)].into_iter().collect();
        let connection = ConnectionInfo::default();
        let credentials = Credentials { headers: &headers, connection: &connection, path: "", audiences };
        match self.authenticator.authenticate(credentials).await {
            Ok(Some(holder)) => {
                if !audiences.is_empty() && !holder.audiences.iter().any(|audience| audiences.contains(audience)) {
                    tracing::error!("error validating audience. want={audiences:?} got={:?}", holder.audiences);
                    return Err(Status::internal("error validating audience"));
                }
                status.set(TokenReviewStatus::AUTHENTICATED, true);
                status.set(TokenReviewStatus::USER, user::info(&holder.user));
                if !holder.audiences.is_empty() {
                    status.set(TokenReviewStatus::AUDIENCES, holder.audiences);
                }
            }
            Ok(None) => {}
            Err(error) => status.set(TokenReviewStatus::ERROR, error.0),
        }
        Ok(object)
    }
}

impl SubresourceHandler for TokenReview {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.review(call))
    }
}
