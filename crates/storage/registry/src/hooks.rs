//! Hooks of a resource, for side effects of writes (such as cluster IPs of services): the begin/after hooks of
//! kube-apiserver's generic registry.

use binnacle_meta::{FieldErrors, Status};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::context::Context;

/// The hooks of a resource. By default they do nothing. Objects are in the storage version. Updates of subresources
/// call no hooks but [`Hooks::review`] and [`Hooks::after_subresource`], except for deletes that they complete.
pub trait Hooks: Send + Sync + 'static {
    /// Called after defaults and admission, before validation. May change the object and allocate for it, which
    /// [`Hooks::abort`] releases if the create fails.
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (context, object);
        Box::pin(async { Ok(()) })
    }

    /// Called after the strategy has reset fields, before validation.
    fn begin_update<'a>(
        &'a self,
        context: &'a Context,
        object: &'a mut Value,
        old: &'a Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (context, object, old);
        Box::pin(async { Ok(()) })
    }

    /// Returns the errors of an object, including those found by validation, for rules that need other parts of the
    /// server, such as the authorizers. Unlike the other hooks it is called for subresources, too; `old` is `None` on
    /// create.
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        let _ = review;
        Box::pin(async { found })
    }

    /// Called when the create or update of `object` has failed (`old` is the object that stays), or was a dry run.
    fn abort<'a>(&'a self, context: &'a Context, object: &'a Value, old: Option<&'a Value>) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// Called when an update has replaced `old` by `object`.
    fn after_update<'a>(&'a self, context: &'a Context, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// Called when an update of a subresource has replaced `old` by `object`.
    fn after_subresource<'a>(&'a self, subresource: &'a str, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (subresource, object, old);
        Box::pin(async {})
    }

    /// Called when the object is deleted.
    fn after_delete<'a>(&'a self, context: &'a Context, object: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (context, object);
        Box::pin(async {})
    }
}

/// An object to be written, in the stored version.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    pub context: &'a Context,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub object: &'a Value,
    pub old: Option<&'a Value>,
}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
