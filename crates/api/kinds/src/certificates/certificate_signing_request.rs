//! CertificateSigningRequest: a request for a certificate, its approval and the issued certificate.

use std::collections::HashMap;

use binnacle_fields::certificates::v1::{
    self, CertificateSigningRequestCondition as Condition, CertificateSigningRequestSpec as Spec,
    CertificateSigningRequestStatus as Status,
};
use binnacle_fields::types::Str;
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Time};
use binnacle_schema::{Object, Value};

use super::validation::{self, Endpoint, conditions_of};
use crate::Features;
use crate::{MetadataChecks, Strategy, StrategyContext};

type Request = v1::CertificateSigningRequest;

pub(crate) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks { subresources: MetadataChecks::WHOLE.main, ..MetadataChecks::WHOLE }
    }

    /// Removes the identity of the requester; the registry's hook for this kind sets it to that of the caller.
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut request = FieldMut::<Request>::root(object);
        let mut spec = request.entry(Request::SPEC);
        spec.remove(Spec::USERNAME);
        spec.remove(Spec::UID);
        spec.remove(Spec::GROUPS);
        spec.remove(Spec::EXTRA);
        request.set(Request::STATUS, Value::from(Object::new()));
    }

    /// Keeps everything except metadata.
    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Request>::root(object), FieldRef::root(old));
        new.keep(old, Request::SPEC);
        new.keep(old, Request::STATUS);
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Request>::root(object), FieldRef::root(old));
        new.keep(old, Request::SPEC);
        if subresource == "approval" {
            stamp_conditions(&mut new, old, ctx.now);
            let conditions = new.read().at(Request::STATUS).at(Status::CONDITIONS).get().cloned();
            new.keep(old, Request::STATUS);
            let mut status = new.entry(Request::STATUS);
            match conditions {
                Some(conditions) => status.set(Status::CONDITIONS, conditions),
                None => drop(status.remove(Status::CONDITIONS)),
            }
        } else {
            preserve_conditions(&mut new, old, "Approved");
            preserve_conditions(&mut new, old, "Denied");
            stamp_conditions(&mut new, old, ctx.now);
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = validation::update(FieldRef::root(object), FieldRef::root(old), Endpoint::Main);
        errors.extend(self.validate_metadata_change(object, old));
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        _: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let endpoint = if subresource == "approval" { Endpoint::Approval } else { Endpoint::Status };
        let mut errors = validation::update(FieldRef::root(object), FieldRef::root(old), endpoint);
        errors.extend(self.validate_metadata_change(object, old));
        errors
    }

    /// Accepts every name that an object can have: nodes choose the names of their requests.
    fn validate_name(&self, _: &Features, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
}

/// Keeps the conditions of a type that signers may not set. Validation rejects added or removed ones.
fn preserve_conditions(request: &mut FieldMut<Request>, old: FieldRef<Request>, kind: &str) {
    let old_ones = conditions_of(old, kind);
    if conditions_of(request.read(), kind).len() != old_ones.len() {
        return;
    }
    let Some(mut status) = request.structure(Request::STATUS) else { return };
    let new_ones = status.items(Status::CONDITIONS).filter(|condition| condition.str(Condition::TYPE) == kind);
    for (mut new, old) in new_ones.zip(old_ones) {
        *new.value() = old.clone();
    }
}

/// Sets the times of the last update and of the last change of status in conditions.
fn stamp_conditions(request: &mut FieldMut<Request>, old: FieldRef<Request>, now: i64) {
    const KEY: [Field<Condition, Str>; 2] = [Condition::TYPE, Condition::STATUS];
    let now = Value::from(Time::from_unix(now, 0).to_string());
    let mut known = HashMap::new();
    for condition in old.at(Request::STATUS).at(Status::CONDITIONS).items() {
        if let Some(time) = condition.at(Condition::LAST_TRANSITION_TIME).get() {
            known.entry(KEY.map(|field| condition.at(field).str())).or_insert(time);
        }
    }
    let Some(mut status) = request.structure(Request::STATUS) else { return };
    for mut condition in status.items(Status::CONDITIONS) {
        condition.default_nil(Condition::LAST_UPDATE_TIME, now.clone());
        let since = known.get(&KEY.map(|field| condition.str(field))).copied().unwrap_or(&now).clone();
        condition.default_nil(Condition::LAST_TRANSITION_TIME, since);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use binnacle_schema::value;

    const CONDITIONS: &[&str] = &["status", "conditions"];

    static CTX: LazyLock<StrategyContext<'static>> = LazyLock::new(|| crate::testing::ctx(""));

    #[test]
    fn approval_changes_only_conditions() {
        let old = value!({"spec": {"signerName": "s"}, "status": {"certificate": "x"}});
        let mut new = value!({
            "spec": {"signerName": "t"},
            "status": {"certificate": "y", "conditions": [{"type": "Approved", "status": "True"}]}
        });
        CertificateSigningRequest.prepare_for_subresource("approval", &CTX, &mut new, &old);
        let want = value!({"spec": {"signerName": "s"}, "status": {"certificate": "x", "conditions": [{
            "type": "Approved", "status": "True",
            "lastUpdateTime": "1970-01-01T00:00:00Z", "lastTransitionTime": "1970-01-01T00:00:00Z"
        }]}});
        assert_eq!(new, want);
    }

    #[test]
    fn status_update_keeps_approval_conditions() {
        let approved = value!({"type": "Approved", "status": "True", "reason": "r", "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let old = value!({"spec": {}, "status": {"conditions": [approved]}});
        let mut new = value!({"spec": {}, "status": {"certificate": "y", "conditions": [
            {"type": "Approved", "status": "True", "reason": "changed"}
        ]}});
        CertificateSigningRequest.prepare_for_subresource("status", &CTX, &mut new, &old);
        assert_eq!(new.at(CONDITIONS), old.at(CONDITIONS));
        assert_eq!(new.str_at(&["status", "certificate"]), "y");
    }
}
