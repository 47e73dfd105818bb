//! Validation of a job's status. Most rules only apply to changed fields, so that a status that already broke them can
//! still be written, and because a change of the spec may break them until the controller has processed the job.

use std::collections::HashSet;

use binnacle_fields::batch::v1::{
    Job, JobCondition, JobSpec as Spec, JobStatus as Status, UncountedTerminatedPods as Uncounted,
};
use binnacle_fields::types::Int;
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};

use super::indexes;
use super::indexes::is_indexed;
use crate::equality::equal;
use crate::internal;
use crate::workload::validation::not_negative;

/// Returns true if a condition is `True`.
pub(super) fn is_true(job: FieldRef<Job>, condition: &str) -> bool {
    has(job, condition, "True")
}

fn has(job: FieldRef<Job>, condition: &str, status: &str) -> bool {
    job.at(Job::STATUS)
        .at(Status::CONDITIONS)
        .items()
        .any(|found| found.at(JobCondition::TYPE).str() == condition && found.at(JobCondition::STATUS).str() == status)
}

/// The conditions of a job that the rules use.
#[derive(PartialEq, Eq)]
struct Conditions {
    complete: bool,
    failed: bool,
    failing: bool,
    succeeded: bool,
}

impl Conditions {
    fn of(job: FieldRef<Job>) -> Self {
        Self {
            complete: is_true(job, "Complete"),
            failed: is_true(job, "Failed"),
            failing: is_true(job, "FailureTarget"),
            succeeded: is_true(job, "SuccessCriteriaMet"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }
}

pub(super) fn validate(new: FieldRef<Job>, old: FieldRef<Job>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let rules = Rules {
        spec: new.at(Job::SPEC),
        status: new.at(Job::STATUS),
        old: old.at(Job::STATUS),
        now: Conditions::of(new),
        was: Conditions::of(old),
        resumes: has(old, "Suspended", "True") && has(new, "Suspended", "False"),
    };
    rules.counts(&mut errors);
    rules.times(&mut errors);
    rules.finished(&mut errors);
    rules.indexes(&mut errors);
    rules.success(&mut errors);
    rules.changes(&mut errors);
    errors
}

struct Rules<'a> {
    spec: FieldRef<'a, 'a, Spec>,
    status: FieldRef<'a, 'a, Status>,
    old: FieldRef<'a, 'a, Status>,
    now: Conditions,
    was: Conditions,
    resumes: bool,
}

impl Rules<'_> {
    fn changed<T>(&self, field: Field<Status, T>) -> bool {
        self.status.at(field).get() != self.old.at(field).get()
    }

    fn count(&self, field: Field<Status, Int>) -> i64 {
        self.status.at(field).int_or_zero()
    }

    fn count_changed(&self, field: Field<Status, Int>) -> bool {
        self.count(field) != self.old.at(field).int_or_zero()
    }

    fn finish_changed(&self) -> bool {
        self.now.finished() != self.was.finished()
    }

    fn complete_changed(&self) -> bool {
        self.now.complete != self.was.complete
    }

    /// Shows an absent field as `null`.
    fn invalid<T>(&self, field: Field<Status, T>, why: &str) -> FieldError {
        let field = self.status.at(field);
        field.invalid_as(field.value(), why)
    }

    fn condition(&self, why: &str) -> FieldError {
        FieldError::invalid_omitting(&self.status.at(Status::CONDITIONS), why)
    }

    fn counts(&self, errors: &mut FieldErrors) {
        let counts = [Status::ACTIVE, Status::SUCCEEDED, Status::FAILED, Status::READY, Status::TERMINATING];
        not_negative(self.status, &counts, errors);
        let uncounted = self.status.at(Status::UNCOUNTED_TERMINATED_PODS);
        let mut seen = HashSet::new();
        for list in [Uncounted::SUCCEEDED, Uncounted::FAILED] {
            for uid in errors.while_room(uncounted.at(list).items()) {
                if uid.is_empty() {
                    errors.push(uid.invalid("must not be empty"));
                } else if !seen.insert(uid.str()) {
                    errors.push(FieldError::duplicate(&uid, uid.shown_as_json()));
                }
            }
        }
    }

    fn times(&self, errors: &mut FieldErrors) {
        let Conditions { complete, failed, failing, succeeded } = self.now;
        let completion = self.status.at(Status::COMPLETION_TIME);
        let start = self.status.at(Status::START_TIME);
        if (self.complete_changed() || failed != self.was.failed) && complete && failed {
            errors.push(self.condition("cannot set Complete=True and Failed=true conditions"));
        }
        if (self.complete_changed() || failing != self.was.failing) && complete && failing {
            errors.push(self.condition("cannot set Complete=True and FailureTarget=true conditions"));
        }
        let completion_changed = self.changed(Status::COMPLETION_TIME);
        if self.complete_changed() || completion_changed {
            if completion.is_set() && !complete {
                errors.push(completion.invalid("cannot set completionTime when there is no Complete=True condition"));
            }
            if !completion.is_set() && complete {
                errors.push(completion.required("completionTime is required for Complete jobs"));
            }
        }
        // Stored times are in UTC and in one format, so they can be compared as text.
        if (self.changed(Status::START_TIME) || completion_changed)
            && let (Some(start), Some(end)) = (start.get_str(), completion.get_str())
            && end < start
        {
            errors.push(completion.invalid("must be equal to or after `startTime`"));
        }
        if (failed != self.was.failed || self.changed(Status::FAILED_INDEXES)) && failed && !failing {
            errors.push(self.condition("cannot set Failed=True condition without the FailureTarget=true condition"));
        }
        if (self.complete_changed() || succeeded != self.was.succeeded) && complete && !succeeded {
            let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            errors.push(self.condition(why));
        }
    }

    fn finished(&self, errors: &mut FieldErrors) {
        if !self.now.finished() {
            return;
        }
        if (self.finish_changed() || self.count_changed(Status::ACTIVE)) && self.count(Status::ACTIVE) > 0 {
            errors.push(self.invalid(Status::ACTIVE, "active>0 is invalid for finished job"));
        }
        let no_work = self.spec.at(Spec::SUSPEND).bool() && self.spec.at(Spec::COMPLETIONS).int() == Some(0);
        let start = self.status.at(Status::START_TIME);
        if (self.finish_changed() || self.changed(Status::START_TIME)) && !no_work && !start.is_set() {
            errors.push(start.required("startTime is required for finished job"));
        }
        let pods = self.status.at(Status::UNCOUNTED_TERMINATED_PODS);
        let is_empty = pods.at(Uncounted::FAILED).is_empty() && pods.at(Uncounted::SUCCEEDED).is_empty();
        let old = self.old.at(Status::UNCOUNTED_TERMINATED_PODS);
        let changed = pods.is_set() != old.is_set() || !equal(pods, old);
        if (self.finish_changed() || changed) && !is_empty {
            errors.push(pods.invalid_as(internal::shown(pods), "must be empty for finished job"));
        }
    }

    fn indexes(&self, errors: &mut FieldErrors) {
        let completed = self.status.at(Status::COMPLETED_INDEXES);
        let failed = self.status.at(Status::FAILED_INDEXES);
        let completions = self.spec.at(Spec::COMPLETIONS).int();
        let per_index = self.spec.at(Spec::BACKOFF_LIMIT_PER_INDEX).is_set();
        let completed_changed = completed.str() != self.old.at(Status::COMPLETED_INDEXES).str();
        let failed_changed = self.changed(Status::FAILED_INDEXES);
        if let Some(completions) = completions {
            if completed_changed && let Err(why) = indexes::count(completed.str(), completions) {
                errors.push(completed.invalid(format!("error parsing completedIndexes: {why}")));
            }
            if failed_changed
                && per_index
                && let Err(why) = indexes::count(failed.str(), completions)
            {
                errors.push(failed.invalid_as(failed.shown_as_json(), format!("error parsing failedIndexes: {why}")));
            }
        }
        if completed_changed && !completed.is_empty() && !is_indexed(self.spec) {
            errors.push(completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode"));
        }
        if failed_changed && !per_index && failed.is_set() {
            errors.push(failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
        }
        if (failed_changed || completed_changed)
            && let (Some(completions), Some(list)) = (completions, failed.get_str())
            && let Some(why) = indexes::overlap(completed.str(), list, completions)
        {
            errors.push(failed.invalid(why));
        }
        let terminating = self.count(Status::TERMINATING) > 0 && self.now.finished();
        if (self.finish_changed() || self.changed(Status::TERMINATING)) && terminating {
            errors.push(self.invalid(Status::TERMINATING, "terminating>0 is invalid for finished job"));
        }
        if (self.changed(Status::READY) || self.count_changed(Status::ACTIVE))
            && self.count(Status::READY) > self.count(Status::ACTIVE)
        {
            errors.push(self.invalid(Status::READY, "cannot set more ready pods than active"));
        }
    }

    fn success(&self, errors: &mut FieldErrors) {
        let Conditions { complete, failed, failing, succeeded } = self.now;
        if succeeded && failed {
            errors.push(self.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
        }
        if succeeded && failing {
            errors.push(self.condition("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
        }
        if self.spec.at(Spec::SUCCESS_POLICY).is_set() && !succeeded && complete {
            let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            errors.push(self.condition(why));
        }
    }

    fn changes(&self, errors: &mut FieldErrors) {
        for (name, was, is) in [
            ("Failed", self.was.failed, self.now.failed),
            ("Complete", self.was.complete, self.now.complete),
            ("FailureTarget", self.was.failing, self.now.failing),
        ] {
            if was && !is {
                errors.push(self.condition(&format!("cannot disable the terminal {name}=True condition")));
            }
        }
        let scales =
            is_indexed(self.spec) && self.spec.at(Spec::COMPLETIONS).get() == self.spec.at(Spec::PARALLELISM).get();
        for (field, may_decrease) in [(Status::FAILED, false), (Status::SUCCEEDED, scales)] {
            if !may_decrease && self.count(field) < self.old.at(field).int_or_zero() {
                let why = format!("cannot decrease the {} counter", field.name());
                errors.push(self.status.at(field).invalid_as(self.count(field), why));
            }
        }
        let (end, start) = (Status::COMPLETION_TIME, Status::START_TIME);
        if self.status.at(end).is_set() && self.old.at(end).is_set() && self.changed(end) {
            errors.push(self.invalid(end, "field is immutable"));
        }
        let started = self.old.at(start).is_set() && !self.spec.at(Spec::SUSPEND).bool();
        if started && self.changed(start) && !self.resumes {
            errors.push(self.invalid(start, "field is immutable for unsuspended job once set"));
        }
        if self.was.succeeded && !self.now.succeeded {
            errors.push(self.condition("cannot disable the SuccessCriteriaMet=True condition"));
        }
        if self.was.complete && !self.was.succeeded && self.now.succeeded {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            errors.push(self.condition(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::{Value, value};

    fn status(conditions: &[&str], rest: Value) -> Value {
        let conditions: Vec<Value> =
            conditions.iter().map(|kind| value!({"type": (*kind), "status": "True"})).collect();
        let mut status = rest;
        status.make_at(&[]).insert("conditions", conditions);
        value!({"spec": {"completionMode": "NonIndexed"}, "status": (status)})
    }

    #[test]
    fn validates_status_transitions() {
        let done = value!({"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T01:00:00Z"});
        let running = value!({"startTime": "2024-01-01T00:00:00Z", "active": 1i64});
        for (old, new, want) in [
            (status(&[], running.clone()), status(&["SuccessCriteriaMet", "Complete"], done.clone()), vec![]),
            (
                status(&[], running.clone()),
                status(&["Complete"], done.clone()),
                vec![
                    "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                ],
            ),
            (
                status(&["SuccessCriteriaMet", "Complete"], done.clone()),
                status(&["SuccessCriteriaMet"], running.clone()),
                vec!["status.conditions: Invalid value: cannot disable the terminal Complete=True condition"],
            ),
            (
                status(&[], running),
                status(&["FailureTarget", "Failed"], value!({"active": 1i64})),
                vec![
                    "status.active: Invalid value: 1: active>0 is invalid for finished job",
                    "status.startTime: Required value: startTime is required for finished job",
                    "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
                ],
            ),
        ] {
            let errors: Vec<String> =
                validate(FieldRef::root(&new), FieldRef::root(&old)).iter().map(ToString::to_string).collect();
            assert_eq!(errors, want);
        }
    }
}
