//! CertificateSigningRequest: a request for a certificate, its approval and the issued certificate.

use std::collections::HashMap;

use binnacle_meta::{FieldErrors, Time};
use binnacle_schema::{Object, Value};

use super::validation::{self, Endpoint};
use crate::Features;
use crate::prepare::{objects_at, put_back};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct CertificateSigningRequest;

const CONDITIONS: &[&str] = &["status", "conditions"];

impl Strategy for CertificateSigningRequest {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks { subresources: MetadataChecks::WHOLE_WITHIN_CHANGE.main, ..MetadataChecks::WHOLE_WITHIN_CHANGE }
    }

    /// Removes the identity of the requester; the registry's hook for this kind sets it to that of the caller.
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        ["username", "uid", "groups", "extra"].iter().for_each(|field| drop(spec.remove(field)));
        object.make_object().insert("status", Object::new());
    }

    /// Keeps everything except metadata.
    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        put_back(object, old, "spec");
        if subresource == "approval" {
            stamp_conditions(object, old, situation.now);
            let conditions = object.at(CONDITIONS).cloned();
            put_back(object, old, "status");
            let status = object.make_at(&["status"]);
            match conditions {
                Some(conditions) => drop(status.insert("conditions", conditions)),
                None => drop(status.remove("conditions")),
            }
        } else {
            preserve_conditions(object, old, "Approved");
            preserve_conditions(object, old, "Denied");
            stamp_conditions(object, old, situation.now);
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::create(object)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::update(object, old, Endpoint::Main)
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        _: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let endpoint = if subresource == "approval" { Endpoint::Approval } else { Endpoint::Status };
        validation::update(object, old, endpoint)
    }

    /// Accepts every name that an object can have: nodes choose the names of their requests.
    fn validate_name(&self, _: &Features, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
}

/// Keeps the conditions of a type that signers may not set. Validation rejects added or removed ones.
fn preserve_conditions(object: &mut Value, old: &Value, kind: &str) {
    let of_kind = |condition: &&Value| condition.str_at(&["type"]) == kind;
    let old_ones: Vec<&Value> = old.list_at(CONDITIONS).iter().filter(of_kind).collect();
    if object.list_at(CONDITIONS).iter().filter(of_kind).count() != old_ones.len() {
        return;
    }
    let conditions = object.at_mut(CONDITIONS).and_then(Value::as_list_mut).into_iter().flatten();
    let new_ones = conditions.filter(|condition| condition.str_at(&["type"]) == kind);
    for (new, old) in new_ones.zip(old_ones) {
        *new = old.clone();
    }
}

/// Sets the times of the last update and of the last change of status in conditions.
fn stamp_conditions(object: &mut Value, old: &Value, now: i64) {
    let now = Value::from(Time::from_unix(now, 0).to_string());
    let mut known = HashMap::new();
    for condition in old.list_at(CONDITIONS).iter().filter(|c| crate::prepare::is_set(c, &["lastTransitionTime"])) {
        let key = ["type", "status"].map(|field| condition.str_at(&[field]));
        known.entry(key).or_insert(condition.get("lastTransitionTime"));
    }
    for condition in objects_at(object, CONDITIONS) {
        let is_set = |condition: &Object, field| condition.get(field).is_some_and(|time| !time.is_null());
        if !is_set(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime", now.clone());
        }
        if !is_set(condition, "lastTransitionTime") {
            let key = ["type", "status"].map(|field| condition.get(field).and_then(Value::as_str).unwrap_or_default());
            let since = known.get(&key).copied().flatten().unwrap_or(&now).clone();
            condition.insert("lastTransitionTime", since);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use binnacle_schema::value;

    static SITUATION: LazyLock<StrategyContext<'static>> = LazyLock::new(|| crate::testing::situation(""));

    #[test]
    fn approval_changes_conditions_only() {
        let old = value!({"spec": {"signerName": "s"}, "status": {"certificate": "x"}});
        let mut new = value!({
            "spec": {"signerName": "t"},
            "status": {"certificate": "y", "conditions": [{"type": "Approved", "status": "True"}]}
        });
        CertificateSigningRequest.prepare_for_subresource("approval", &SITUATION, &mut new, &old);
        let want = value!({"spec": {"signerName": "s"}, "status": {"certificate": "x", "conditions": [{
            "type": "Approved", "status": "True",
            "lastUpdateTime": "1970-01-01T00:00:00Z", "lastTransitionTime": "1970-01-01T00:00:00Z"
        }]}});
        assert_eq!(new, want);
    }

    #[test]
    fn signers_do_not_touch_the_decision() {
        let approved = value!({"type": "Approved", "status": "True", "reason": "r", "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let old = value!({"spec": {}, "status": {"conditions": [approved]}});
        let mut new = value!({"spec": {}, "status": {"certificate": "y", "conditions": [
            {"type": "Approved", "status": "True", "reason": "changed"}
        ]}});
        CertificateSigningRequest.prepare_for_subresource("status", &SITUATION, &mut new, &old);
        assert_eq!(new.at(CONDITIONS), old.at(CONDITIONS));
        assert_eq!(new.str_at(&["status", "certificate"]), "y");
    }
}
