//! Groups whose members may do everything. They precede all other authorizers, so that their members can repair those.

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Authorizer, AuthzError, Rules};

/// Allows members of the given groups.
pub struct PrivilegedGroups {
    groups: Vec<Text>,
}

impl PrivilegedGroups {
    pub fn new(groups: &[&str]) -> Self {
        Self { groups: groups.iter().map(Text::new).collect() }
    }

    /// Returns the authorizer of `system:masters`, which every server has.
    pub fn masters() -> Self {
        Self::new(&[User::MASTERS])
    }
}

impl Authorizer for PrivilegedGroups {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async {
            let member = self.groups.iter().any(|group| attributes.user.is_in(group));
            Ok(if member { Decision::Allow(Text::default()) } else { Decision::NoOpinion(Text::default()) })
        })
    }

    /// Returns no rules: as in kube-apiserver, only those of roles are listed.
    fn rules_for<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async { Rules::default() })
    }
}
