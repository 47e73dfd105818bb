//! `CronJob`: jobs on a schedule.

mod validation;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use super::job::set_failure_policy_defaults;
use crate::pod_spec::set_template_defaults;
use crate::tree_names::{default_nil, default_zero, keep};
use crate::workload_names::{dns_label_recommended, job_warnings, prepare_create, prepare_update};
use crate::{MetadataChecks, Strategy, StrategyContext};

const TEMPLATE: &[&str] = &["spec", "jobTemplate", "spec", "template"];

/// The longest name: names of jobs append a time and have at most 63 characters.
const NAME_MAX: usize = 52;

/// The message has the path that kube-apiserver writes.
const TIME_ZONE_IN_SCHEDULE: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";

pub(super) struct CronJob;

impl Strategy for CronJob {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks { subresources: &[], ..MetadataChecks::CHANGE }
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_zero(spec, "concurrencyPolicy", "Allow");
        default_nil(spec, "suspend", false);
        default_nil(spec, "successfulJobsHistoryLimit", 3i64);
        default_nil(spec, "failedJobsHistoryLimit", 1i64);
        let job = object.make_at(&["spec", "jobTemplate", "spec"]);
        set_failure_policy_defaults(job);
        set_template_defaults(job.object_entry("template"));
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(situation.features, object, TEMPLATE);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(situation.features, object, old, TEMPLATE, "io.k8s.api.batch.v1.CronJobSpec");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(situation.features, object, None, &mut errors);
        let name = object.str_at(&["metadata", "name"]);
        if name.len() > NAME_MAX {
            let at = FieldPath::new("metadata").child("name");
            errors.push(FieldError::invalid(&at, name, format!("must be no more than {NAME_MAX} characters")));
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(situation.features, object, Some(old), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(object) };
        warnings.extend(job_warnings(object, old, &["spec", "jobTemplate", "spec"]));
        if old.is_some() && object.str_at(&["spec", "schedule"]).contains("TZ") {
            warnings.push(TIME_ZONE_IN_SCHEDULE.to_owned());
        }
        warnings
    }
}
