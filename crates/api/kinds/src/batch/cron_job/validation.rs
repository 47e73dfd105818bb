//! Validation of cron jobs.

use binnacle_fields::FieldRef;
use binnacle_fields::batch::v1::{CronJob, CronJobSpec as Spec, JobSpec, JobTemplateSpec};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::checks;

use super::pod_template;
use crate::Features;
use crate::batch::{job, schedule, time_zone};
use crate::internal;
use crate::pod_spec::validation::PodValidationOptions;
use crate::workload::validation::not_negative;

pub(super) fn validate(
    features: &Features,
    new: FieldRef<CronJob>,
    old: Option<FieldRef<CronJob>>,
    errors: &mut FieldErrors,
) {
    let spec = new.at(CronJob::SPEC);
    let old_spec = old.as_ref().map(|old| old.at(CronJob::SPEC));
    schedule_rules(spec, old_spec, errors);
    not_negative(spec, &[Spec::STARTING_DEADLINE_SECONDS], errors);
    let zone = spec.at(Spec::TIME_ZONE);
    let has_changed = old_spec.is_none_or(|old| old.at(Spec::TIME_ZONE).get_str() != zone.get_str());
    if let Some(name) = zone.get_str().filter(|_| has_changed) {
        time_zone::validate(&zone, name, errors);
    }
    let policy = spec.at(Spec::CONCURRENCY_POLICY);
    checks::required_one_of(&policy, policy.str(), &["Allow", "Forbid", "Replace"], errors);
    let options = match old {
        Some(old) => PodValidationOptions::for_update(features, pod_template(old)),
        None => PodValidationOptions::for_template(features),
    };
    job_template(spec.at(Spec::JOB_TEMPLATE), &options, errors);
    not_negative(spec, &[Spec::SUCCESSFUL_JOBS_HISTORY_LIMIT, Spec::FAILED_JOBS_HISTORY_LIMIT], errors);
}

fn schedule_rules(spec: FieldRef<Spec>, old: Option<FieldRef<Spec>>, errors: &mut FieldErrors) {
    let schedule = spec.at(Spec::SCHEDULE);
    if schedule.is_empty() {
        return errors.push(schedule.required(""));
    }
    if let Err(why) = schedule::check(schedule.str()) {
        errors.push(schedule.invalid(why));
    }
    // Before the field existed, schedules could contain time zones.
    let had_zone = old.is_some_and(|old| old.at(Spec::SCHEDULE).str().contains("TZ"));
    if !schedule.str().contains("TZ") {
        return;
    }
    if !had_zone {
        errors.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if spec.at(Spec::TIME_ZONE).is_set() {
        errors.push(schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

/// Rejects a selector in the job template, as each job gets its own.
fn job_template(template: FieldRef<JobTemplateSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let spec = template.at(JobTemplateSpec::SPEC);
    job::validate_spec(spec, options, errors);
    let selector = spec.at(JobSpec::SELECTOR);
    if selector.is_set() {
        errors.push(selector.invalid_as(internal::shown(selector), "`selector` will be auto-generated"));
    }
    let manual = spec.at(JobSpec::MANUAL_SELECTOR);
    if manual.bool() {
        errors.push(FieldError::not_supported(&manual, true, &["nil", "false"]));
    }
}
