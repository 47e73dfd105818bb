//! `CronJob`: jobs on a schedule.

mod validation;

use binnacle_fields::batch::v1::{self, CronJobSpec as Spec, JobSpec, JobTemplateSpec};
use binnacle_fields::core::v1::PodTemplateSpec;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::job::set_failure_policy_defaults;
use crate::equality::equal;
use crate::pod_spec::set_template_defaults;
use crate::prepare::{count_generation_if, start_generation};
use crate::workload::{dns_label_recommended, drop_disabled_fields, job_warnings};
use crate::{Features, MetadataChecks, Strategy, StrategyContext};

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
        let mut cron_job = FieldMut::<v1::CronJob>::root(object);
        let mut spec = cron_job.entry(v1::CronJob::SPEC);
        spec.default_zero(Spec::CONCURRENCY_POLICY, "Allow");
        spec.default_nil(Spec::SUSPEND, false);
        spec.default_nil(Spec::SUCCESSFUL_JOBS_HISTORY_LIMIT, 3i64);
        spec.default_nil(Spec::FAILED_JOBS_HISTORY_LIMIT, 1i64);
        let mut template = spec.entry(Spec::JOB_TEMPLATE);
        let mut job = template.entry(JobTemplateSpec::SPEC);
        set_failure_policy_defaults(&mut job);
        set_template_defaults(job.entry(JobSpec::TEMPLATE).object());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut cron_job = FieldMut::<v1::CronJob>::root(object);
        cron_job.remove(v1::CronJob::STATUS);
        start_generation(&mut cron_job);
        drop_disabled(ctx.features, &mut cron_job, None);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut new = FieldMut::<v1::CronJob>::root(object);
        let old = FieldRef::<v1::CronJob>::root(old);
        new.keep(old, v1::CronJob::STATUS);
        drop_disabled(ctx.features, &mut new, Some(pod_template(old)));
        let has_changed = !equal(new.read().at(v1::CronJob::SPEC), old.at(v1::CronJob::SPEC));
        count_generation_if(has_changed, &mut new, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), v1::CronJob::SPEC);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let cron_job = FieldRef::<v1::CronJob>::root(object);
        validation::validate(ctx.features, cron_job, None, &mut errors);
        let metadata = cron_job.at(v1::CronJob::METADATA);
        let name = metadata.at(ObjectMeta::NAME);
        if name.str().len() > NAME_MAX {
            errors.push(name.invalid(format!("must be no more than {NAME_MAX} characters")));
        }
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(ctx.features, FieldRef::root(object), Some(FieldRef::root(old)), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let cron_job = FieldRef::<v1::CronJob>::root(object);
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(cron_job) };
        let spec = cron_job.at(v1::CronJob::SPEC);
        let template = spec.at(Spec::JOB_TEMPLATE);
        warnings.extend(job_warnings(cron_job, old.map(FieldRef::root), template.at(JobTemplateSpec::SPEC)));
        if old.is_some() && spec.at(Spec::SCHEDULE).str().contains("TZ") {
            warnings.push(TIME_ZONE_IN_SCHEDULE.to_owned());
        }
        warnings
    }
}

/// Returns the template of the jobs' pods.
fn pod_template<'v>(cron_job: FieldRef<'_, 'v, v1::CronJob>) -> &'v Value {
    let spec = cron_job.at(v1::CronJob::SPEC);
    spec.at(Spec::JOB_TEMPLATE).at(JobTemplateSpec::SPEC).at(JobSpec::TEMPLATE).value()
}

/// Drops disabled fields from the template of the jobs' pods.
fn drop_disabled(features: &Features, cron_job: &mut FieldMut<v1::CronJob>, old: Option<&Value>) {
    let Some(mut spec) = cron_job.structure(v1::CronJob::SPEC) else { return };
    let Some(mut template) = spec.structure(Spec::JOB_TEMPLATE) else { return };
    let Some(mut job) = template.structure(JobTemplateSpec::SPEC) else { return };
    let old = old.map(FieldRef::<PodTemplateSpec>::root);
    drop_disabled_fields(features, job.structure(JobSpec::TEMPLATE), old);
}
