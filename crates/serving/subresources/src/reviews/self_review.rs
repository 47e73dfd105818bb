//! SelfSubjectReview: the authenticated user of the request (KEP-3325).

use std::sync::Arc;

use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_registry::admission::Admission;
use binnacle_registry::rfc3339;
use binnacle_request::BoxFuture;
use binnacle_schema::value;

use super::user;
use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind::new("authentication.k8s.io", "v1", "SelfSubjectReview");

pub(crate) struct SelfReview {
    admission: Arc<dyn Admission>,
}

impl SelfReview {
    pub(crate) fn new(admission: Arc<dyn Admission>) -> Self {
        Self { admission }
    }

    async fn review(&self, call: SubresourceCall) -> HandlerResult {
        let posted = PostedObject::read(call, &KIND, &self.admission).await?;
        posted.validate(&self.admission).await?;
        // The response contains nothing of the request's object.
        let review = value!({
            "kind": (KIND.kind), "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": (rfc3339(posted.context.now))},
            "status": {"userInfo": (user::info(&posted.context.user))}
        });
        posted.respond(review)
    }
}

impl SubresourceHandler for SelfReview {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.review(call))
    }
}
