//! FlowSchema: which requests belong to which priority level.

use binnacle_schema::Value;

use crate::prepare::default_zero_to;
use crate::{Situation, Strategy};

pub(crate) struct FlowSchema;

impl Strategy for FlowSchema {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        default_zero_to(object.make_at(&["spec"]), "matchingPrecedence", 1000i64);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        super::prepare_for_create(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_update(object, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(object, old);
    }
}
