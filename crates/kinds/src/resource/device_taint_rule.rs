//! DeviceTaintRule: taints for devices that match.

use binnacle_meta::Time;
use binnacle_schema::Value;

use super::date_taint;
use crate::prepare::{clear_status, first_generation, next_generation, put_back, put_back_metadata};
use crate::{Situation, Strategy};

const TAINT: &[&str] = &["spec", "taint"];

pub(crate) struct DeviceTaintRule;

impl Strategy for DeviceTaintRule {
    fn prepare_for_create(&self, situation: &Situation<'_>, object: &mut Value) {
        date_taint(object.make_at(TAINT), situation.now);
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        let taint = object.make_at(TAINT);
        date_taint(taint, situation.now);
        // Another effect begins now, unless the client says when.
        let same = |field: &str| taint.get(field) == old.at(TAINT).and_then(|taint| taint.get(field));
        if !same("effect") && same("timeAdded") {
            taint.insert("timeAdded", Time::from_unix(situation.now, 0).to_string());
        }
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }
}
