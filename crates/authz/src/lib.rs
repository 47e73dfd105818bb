//! May they do it: one file per authorizer, and their union.
//!
//! Whatever no authorizer allows is refused. An authorizer that cannot tell says so with an error, which allows nothing.

mod always;
mod attributes;
mod authorizer;
mod forbidden;
mod privileged;
mod rbac;
mod ready;
mod rules;
mod union;

pub use always::{AlwaysAllow, AlwaysDeny};
pub use attributes::Attributes;
pub use authorizer::{Authorizer, AuthzError, aggregate};
pub use binnacle_request::{Decision, Permit};
pub use forbidden::forbidden;
pub use privileged::PrivilegedGroups;
pub use rbac::{
    Escalation, NoRole, Rbac, RbacIndex, RbacKind, RoleRef, Rule, confirm_no_escalation, quoted, uncovered,
};
pub use ready::Ready;
pub use rules::{PathRule, ResourceRule, Rules};
pub use union::Union;
