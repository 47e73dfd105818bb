//! `AlwaysAllow` and `AlwaysDeny`: the same decision for every request.

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Authorizer, AuthzError, Rules};

/// Allows all requests.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async { Ok(Decision::Allow(Text::default())) })
    }

    fn rules_for<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async { Rules::all() })
    }
}

/// Allows no requests. It has no opinion instead of denying, so that its position in the chain does not matter.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async { Ok(Decision::NoOpinion(Text::new_static("Everything is forbidden."))) })
    }

    fn rules_for<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async { Rules::default() })
    }
}
