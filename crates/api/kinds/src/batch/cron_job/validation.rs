//! Validation of cron jobs.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::metadata::shown;

use super::TEMPLATE;
use crate::Features;
use crate::batch::{job, schedule, time_zone};
use crate::pod_spec::validation::PodValidationOptions;
use crate::tree_names::member;
use crate::workload_names::validation::not_negative;

pub(super) fn validate(features: &Features, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    schedule_rules(object, old, &path.child("schedule"), errors);
    not_negative(spec, &["startingDeadlineSeconds"], &path, errors);
    let zone = spec.get("timeZone").and_then(Value::as_str);
    let old_zone = old.and_then(|old| old.at(&["spec", "timeZone"])).and_then(Value::as_str);
    if let Some(zone) = zone.filter(|zone| old.is_none() || old_zone != Some(zone)) {
        time_zone::validate(&path.child("timeZone"), zone, errors);
    }
    let policy = spec.str_at(&["concurrencyPolicy"]);
    checks::required_one_of(&path.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"], errors);
    let options = match old {
        Some(old) => PodValidationOptions::for_update(features, old.at(TEMPLATE).unwrap_or(&Value::Null)),
        None => PodValidationOptions::for_template(features),
    };
    job_template(spec, &path.child("jobTemplate").child("spec"), &options, errors);
    not_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], &path, errors);
}

fn schedule_rules(object: &Value, old: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let schedule = object.str_at(&["spec", "schedule"]);
    if schedule.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if let Err(why) = schedule::check(schedule) {
        errors.push(FieldError::invalid(path, schedule, why));
    }
    // Before there was a field, schedules had time zones.
    let had_zone = old.is_some_and(|old| old.str_at(&["spec", "schedule"]).contains("TZ"));
    if !schedule.contains("TZ") {
        return;
    }
    if !had_zone {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(path, schedule, why));
    } else if object.at(&["spec", "timeZone"]).is_some_and(|zone| !zone.is_null()) {
        let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(FieldError::invalid(path, schedule, why));
    }
}

/// Rejects a selector in the job template, as each job gets its own.
fn job_template(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let spec = spec.at(&["jobTemplate", "spec"]).unwrap_or(&Value::Null);
    job::validate_spec(spec, path, options, errors);
    if let Some(selector) = member(spec, "selector") {
        let at = path.child("selector");
        errors.push(FieldError::invalid(&at, shown(Some(selector)), "`selector` will be auto-generated"));
    }
    if spec.bool_at(&["manualSelector"]) {
        errors.push(FieldError::not_supported(&path.child("manualSelector"), true, &["nil", "false"]));
    }
}
