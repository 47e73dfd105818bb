//! The checks of a delete, in the order of kube-apiserver: `Store.Delete` of its generic registry, with
//! `rest.BeforeDelete` inside, both wrapped by the `REST.Delete` of namespaces and of CustomResourceDefinitions.

use binnacle_meta::Status;
use binnacle_schema::Value;
use binnacle_scheme::Deletion;

use super::DeleteRequest;
use super::finalizers::mark_deleting;
use super::grace::Grace;
use crate::delete_options::DeleteOptions;
use crate::object;

/// The next step of a delete.
pub(super) enum Step {
    /// Write this object, and continue with the delete if `then_delete` is set.
    Mark {
        object: Value,
        then_delete: bool,
    },
    Delete,
    /// Delete an object whose finalizers were those of the garbage collector, and are removed.
    DeleteWithoutFinalizers,
}

impl DeleteRequest<'_> {
    /// Runs the checks on the object in its current state, and returns the next step, or `None` if nothing is left to
    /// do because an earlier delete has already marked the object.
    ///
    /// # Errors
    ///
    /// 409 for a failed precondition.
    pub(super) fn next_step(&mut self, current: &Value) -> Result<Option<Step>, Status> {
        self.check_preconditions(current)?;
        if self.marked {
            return Ok(Some(Step::Delete));
        }
        self.require_uid_of_namespace(current);
        if self.is_terminating_namespace(current) {
            return Ok(None);
        }
        if let Some(object) = self.terminate_namespace(current).or_else(|| self.terminate_definition(current)) {
            return Ok(Some(Step::Mark { object, then_delete: false }));
        }
        self.round_up_negative_grace_period();
        let mut object = current.clone();
        let grace = self.apply_grace_period(&mut object);
        if grace == Grace::Pending {
            return Ok(None);
        }
        self.set_propagation_finalizers(&mut object);
        Ok(Some(self.mark_or_delete(current, object, grace)))
    }

    /// Adds the uid of a namespace to the preconditions, so that later attempts cannot delete a namespace that was
    /// recreated with the same name (`REST.Delete` of namespaces).
    fn require_uid_of_namespace(&mut self, current: &Value) {
        if self.resource.description.deletion == Deletion::Namespace {
            self.options.uid.get_or_insert_with(|| object::uid(current).into());
        }
    }

    /// Returns the options for admission. For namespaces and definitions they always include the uid (`REST.Delete` of
    /// both).
    pub(super) fn options_for_admission(&self, current: &Value) -> DeleteOptions {
        let mut options = self.options.clone();
        if matches!(self.resource.description.deletion, Deletion::Namespace | Deletion::CustomResourceDefinition) {
            options.uid.get_or_insert_with(|| object::uid(current).into());
        }
        options
    }

    /// Chooses the last step. An object with a grace period is marked, and deleted at once only if the period is 0 and
    /// there are no finalizers. Any other object is deleted unless it has finalizers (`Store.Delete` and its
    /// `updateForGracefulDeletionAndFinalizers`).
    fn mark_or_delete(&self, current: &Value, mut object: Value, grace: Grace) -> Step {
        let has_finalizers = object::has_finalizers(&object);
        if grace == Grace::Started {
            let then_delete = !has_finalizers && self.options.grace_period_seconds == Some(0);
            return Step::Mark { object, then_delete };
        }
        if has_finalizers {
            mark_deleting(self.context, &mut object);
            return Step::Mark { object, then_delete: false };
        }
        if object::has_finalizers(current) { Step::DeleteWithoutFinalizers } else { Step::Delete }
    }
}
