//! Protects `metadata.managedFields` from webhooks that would make it undecodable.

use binnacle_admission::Request;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_patch::apply::check_managed_fields;
use binnacle_registry::object;
use binnacle_schema::Value;

/// Restores the managed fields of `before` if they have become undecodable, and adds a warning.
pub(crate) fn restore_unreadable(request: &Request<'_>, before: &Value, object: &mut Value) {
    let [had, has] = [before, object].map(|object| metadata(object).at(ObjectMeta::MANAGED_FIELDS).list());
    // Custom objects may have entries that are not objects until they are stored, which are ignored here.
    if had == has || has.iter().any(|entry| entry.as_object().is_none()) {
        return;
    }
    if let Err(why) = check_managed_fields(has) {
        request.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: {why}"
        ));
        let had = (!had.is_empty()).then(|| Value::List(had.to_vec()));
        object::set_metadata(object, ObjectMeta::MANAGED_FIELDS.name(), had);
    }
}
