//! Validation of a job's status. Most rules only apply to changed fields, so that a status that already broke them can
//! still be written, and because a change of the spec may break them until the controller has processed the job.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;

use super::indexes;
use super::validation::is_indexed;
use crate::equality::equal_as;
use crate::internal;
use crate::tree_names::member;
use crate::workload_names::validation::not_negative;

const UNCOUNTED: &str = "io.k8s.api.batch.v1.UncountedTerminatedPods";

/// Returns true if a condition is `True`.
pub(super) fn is_true(job: &Value, condition: &str) -> bool {
    has(job, condition, "True")
}

fn has(job: &Value, condition: &str, status: &str) -> bool {
    let mut conditions = job.list_at(&["status", "conditions"]).iter();
    conditions.any(|c| c.str_at(&["type"]) == condition && c.str_at(&["status"]) == status)
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
    fn of(job: &Value) -> Self {
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

pub(super) fn validate(object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let null = Value::Null;
    let rules = Rules {
        object,
        spec: object.get("spec").unwrap_or(&null),
        status: object.get("status").unwrap_or(&null),
        old: old.get("status").unwrap_or(&null),
        now: Conditions::of(object),
        was: Conditions::of(old),
        resumes: has(old, "Suspended", "True") && has(object, "Suspended", "False"),
        path: FieldPath::new("status"),
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
    object: &'a Value,
    spec: &'a Value,
    status: &'a Value,
    old: &'a Value,
    now: Conditions,
    was: Conditions,
    resumes: bool,
    path: FieldPath,
}

impl Rules<'_> {
    fn changed(&self, field: &str) -> bool {
        member(self.status, field) != member(self.old, field)
    }

    fn count(&self, field: &str) -> i64 {
        self.status.int_at(&[field]).unwrap_or(0)
    }

    fn count_changed(&self, field: &str) -> bool {
        self.count(field) != self.old.int_at(&[field]).unwrap_or(0)
    }

    fn finish_changed(&self) -> bool {
        self.now.finished() != self.was.finished()
    }

    fn complete_changed(&self) -> bool {
        self.now.complete != self.was.complete
    }

    fn invalid(&self, field: &str, why: &str) -> FieldError {
        FieldError::invalid(&self.path.child(field), shown(member(self.status, field)), why)
    }

    fn condition(&self, why: &str) -> FieldError {
        FieldError::invalid_omitting(&self.path.child("conditions"), why)
    }

    fn counts(&self, errors: &mut FieldErrors) {
        not_negative(self.status, &["active", "succeeded", "failed", "ready", "terminating"], &self.path, errors);
        let Some(uncounted) = member(self.status, "uncountedTerminatedPods") else { return };
        let path = self.path.child("uncountedTerminatedPods");
        let mut seen = HashSet::new();
        for list in ["succeeded", "failed"] {
            for (i, uid) in errors.while_room(uncounted.list_at(&[list]).iter().filter_map(Value::as_str).enumerate()) {
                let at = path.child(list).index(i);
                if uid.is_empty() {
                    errors.push(FieldError::invalid(&at, uid, "must not be empty"));
                } else if !seen.insert(uid) {
                    errors.push(FieldError::duplicate(&at, uid));
                }
            }
        }
    }

    fn times(&self, errors: &mut FieldErrors) {
        let Conditions { complete, failed, failing, succeeded } = self.now;
        let completion = self.status.get("completionTime").and_then(Value::as_str);
        let start = self.status.get("startTime").and_then(Value::as_str);
        if (self.complete_changed() || failed != self.was.failed) && complete && failed {
            errors.push(self.condition("cannot set Complete=True and Failed=true conditions"));
        }
        if (self.complete_changed() || failing != self.was.failing) && complete && failing {
            errors.push(self.condition("cannot set Complete=True and FailureTarget=true conditions"));
        }
        let completion_changed = self.changed("completionTime");
        if self.complete_changed() || completion_changed {
            if completion.is_some() && !complete {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.push(self.invalid("completionTime", why));
            }
            if completion.is_none() && complete {
                let why = "completionTime is required for Complete jobs";
                errors.push(FieldError::required(&self.path.child("completionTime"), why));
            }
        }
        // Stored times are in UTC and in one format, so they can be compared as text.
        if (self.changed("startTime") || completion_changed)
            && let (Some(start), Some(completion)) = (start, completion)
            && completion < start
        {
            errors.push(self.invalid("completionTime", "must be equal to or after `startTime`"));
        }
        if (failed != self.was.failed || self.changed("failedIndexes")) && failed && !failing {
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
        if (self.finish_changed() || self.count_changed("active")) && self.count("active") > 0 {
            let at = self.path.child("active");
            errors.push(FieldError::invalid(&at, self.count("active"), "active>0 is invalid for finished job"));
        }
        let no_work = self.spec.bool_at(&["suspend"]) && self.spec.int_at(&["completions"]) == Some(0);
        let start_changed = self.changed("startTime");
        if (self.finish_changed() || start_changed) && !no_work && member(self.status, "startTime").is_none() {
            let why = "startTime is required for finished job";
            errors.push(FieldError::required(&self.path.child("startTime"), why));
        }
        let uncounted = member(self.status, "uncountedTerminatedPods");
        let some = |list: &str| uncounted.is_some_and(|uncounted| !uncounted.list_at(&[list]).is_empty());
        let old = member(self.old, "uncountedTerminatedPods");
        let changed = uncounted.is_some() != old.is_some() || !equal_as(UNCOUNTED, uncounted, old);
        if (self.finish_changed() || changed) && (some("failed") || some("succeeded")) {
            let at = self.path.child("uncountedTerminatedPods");
            let shown = internal::shown_as(UNCOUNTED, uncounted);
            errors.push(FieldError::invalid(&at, shown, "must be empty for finished job"));
        }
    }

    fn indexes(&self, errors: &mut FieldErrors) {
        let completed = self.status.str_at(&["completedIndexes"]);
        let failed = self.status.get("failedIndexes").and_then(Value::as_str);
        let completions = self.spec.int_at(&["completions"]);
        let per_index = self.spec.int_at(&["backoffLimitPerIndex"]).is_some();
        let completed_changed = completed != self.old.str_at(&["completedIndexes"]);
        let failed_changed = self.changed("failedIndexes");
        let completed_at = self.path.child("completedIndexes");
        if let Some(completions) = completions {
            if completed_changed && let Err(why) = indexes::count(completed, completions) {
                let why = format!("error parsing completedIndexes: {why}");
                errors.push(FieldError::invalid(&completed_at, completed, why));
            }
            if failed_changed
                && per_index
                && let Err(why) = indexes::count(failed.unwrap_or(""), completions)
            {
                errors.push(self.invalid("failedIndexes", &format!("error parsing failedIndexes: {why}")));
            }
        }
        if completed_changed && !completed.is_empty() && !is_indexed(self.spec) {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(&completed_at, completed, why));
        }
        if failed_changed && !per_index && failed.is_some() {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(self.invalid("failedIndexes", why));
        }
        if (failed_changed || completed_changed)
            && let (Some(completions), Some(failed)) = (completions, failed)
            && let Some(why) = indexes::overlap(completed, failed, completions)
        {
            errors.push(self.invalid("failedIndexes", &why));
        }
        let terminating = self.count("terminating") > 0 && self.now.finished();
        if (self.finish_changed() || self.changed("terminating")) && terminating {
            errors.push(self.invalid("terminating", "terminating>0 is invalid for finished job"));
        }
        if (self.changed("ready") || self.count_changed("active")) && self.count("ready") > self.count("active") {
            errors.push(self.invalid("ready", "cannot set more ready pods than active"));
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
        if member(self.spec, "successPolicy").is_some() && !succeeded && complete {
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
        let scales = is_indexed(self.spec) && member(self.spec, "completions") == member(self.spec, "parallelism");
        for field in ["failed", "succeeded"].iter().filter(|field| **field == "failed" || !scales) {
            if self.count(field) < self.old.int_at(&[field]).unwrap_or(0) {
                let why = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(&self.path.child(field), self.count(field), why));
            }
        }
        let both = |field: &str| member(self.status, field).is_some() && member(self.old, field).is_some();
        if both("completionTime") && self.changed("completionTime") {
            errors.push(self.invalid("completionTime", "field is immutable"));
        }
        let started = member(self.old, "startTime").is_some() && !self.object.bool_at(&["spec", "suspend"]);
        if started && self.changed("startTime") && !self.resumes {
            errors.push(self.invalid("startTime", "field is immutable for unsuspended job once set"));
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
    use binnacle_schema::value;

    fn status(conditions: &[&str], rest: Value) -> Value {
        let conditions: Vec<Value> =
            conditions.iter().map(|kind| value!({"type": (*kind), "status": "True"})).collect();
        let mut status = rest;
        status.make_at(&[]).insert("conditions", conditions);
        value!({"spec": {"completionMode": "NonIndexed"}, "status": (status)})
    }

    #[test]
    fn transitions() {
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
            let errors: Vec<String> = validate(&new, &old).iter().map(ToString::to_string).collect();
            assert_eq!(errors, want);
        }
    }
}
