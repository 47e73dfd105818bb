//! Workload: templates of pod groups.

use binnacle_schema::Value;

use super::DISABLED;
use crate::prepare::{is_set, objects_at};
use crate::{Situation, Strategy};

pub(crate) struct Workload;

const TEMPLATES: &[&str] = &["spec", "podGroupTemplates"];

impl Strategy for Workload {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        drop_disabled(object, &[]);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        drop_disabled(object, old.list_at(TEMPLATES));
    }
}

fn drop_disabled(object: &mut Value, old_templates: &[Value]) {
    for (i, template) in objects_at(object, TEMPLATES).enumerate() {
        for field in DISABLED {
            if !old_templates.get(i).is_some_and(|old| is_set(old, &[field])) {
                template.remove(field);
            }
        }
    }
}
