//! Hooks of one resource, for effects beside the store when its objects come and go (cluster IPs of services, say): the
//! begin/after hooks of kube-apiserver's generic registry.

use binnacle_meta::{FieldErrors, Status};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::context::Context;

/// Every method does nothing by default. Objects are in the storage version. Updates of subresources call no hooks,
/// except for the deletes that they complete.
pub trait Hooks: Send + Sync + 'static {
    /// After defaults and admission, before validation: may change the object and take what must be given back with
    /// [`Hooks::abort`] when the create does not come about.
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (context, object);
        Box::pin(async { Ok(()) })
    }

    /// After the kind has reset what an update may not change, before validation.
    fn begin_update<'a>(
        &'a self,
        context: &'a Context,
        object: &'a mut Value,
        old: &'a Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (context, object, old);
        Box::pin(async { Ok(()) })
    }

    /// Returns the errors of an object, given those that the rules of its kind found: for rules that must ask others,
    /// such as the authorizers. Unlike the other hooks it is called for subresources, too; `old` is `None` on create.
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        let _ = review;
        Box::pin(async { found })
    }

    /// The create or update for which `object` was prepared did not come about (`old`: what stays), or it was a dry run.
    fn abort<'a>(&'a self, context: &'a Context, object: &'a Value, old: Option<&'a Value>) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// An update has replaced `old` by `object`.
    fn after_update<'a>(&'a self, context: &'a Context, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (context, object, old);
        Box::pin(async {})
    }

    /// The object is gone.
    fn after_delete<'a>(&'a self, context: &'a Context, object: &'a Value) -> BoxFuture<'a, ()> {
        let _ = (context, object);
        Box::pin(async {})
    }
}

/// An object that is to be written, in the stored version.
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
