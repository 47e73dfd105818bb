//! Hooks of a resource for side effects of writes, such as the cluster IPs of services. They correspond to the
//! begin/after hooks of kube-apiserver's generic registry.

use binnacle_meta::{FieldErrors, Status};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::context::Context;

/// The hooks of a resource, which do nothing by default. Objects are in the storage version. Updates of subresources
/// only call [`Hooks::review`] and [`Hooks::after_subresource`], except if they complete a delete.
pub trait Hooks: Send + Sync + 'static {
    /// Called after defaults and admission, before validation. It may change the object and allocate resources for it,
    /// which [`Hooks::abort`] releases if the create fails.
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

    /// Returns the errors of an object, including `found`, the errors of validation. This is for rules that need other
    /// parts of the server, such as the authorizers. Unlike the other hooks, it is also called for subresources.
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        let _ = review;
        Box::pin(async { found })
    }

    /// Called if the create or update of `object` has failed (`old` is the object that remains), or was a dry run.
    fn abort<'a>(&'a self, context: &'a Context, object: &'a Value, old: Option<&'a Value>) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// Called after an update has replaced `old` with `object`.
    fn after_update<'a>(&'a self, context: &'a Context, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// Called after an update of a subresource has replaced `old` with `object`.
    fn after_subresource<'a>(&'a self, subresource: &'a str, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (subresource, object, old);
        Box::pin(async {})
    }

    /// Called after the object was deleted.
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
