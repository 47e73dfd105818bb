//! APIService: a group version and the server that serves it.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Time};
use binnacle_schema::{Value, value};
use binnacle_validation::{checks, names};

use crate::Features;
use crate::checks::{items, member, present, spec_path};
use crate::prepare::{clear_status, default_to, is_set, put_back, put_back_in};
use crate::{MetadataCheck, MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ApiService;

impl Strategy for ApiService {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        use MetadataCheck::{Change, Domains, Whole};
        MetadataChecks { main: &[Change, Whole, Domains], ..MetadataChecks::CHANGE }
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(service) = object.at_mut(&["spec", "service"]).and_then(Value::as_object_mut) {
            default_to(service, "port", 443i64);
        }
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        // APIs that this server serves itself are always available.
        if !is_set(object, &["spec", "service"]) {
            let since = Time::from_unix(situation.now, 0).to_string();
            let available = value!({
                "type": "Available", "status": "True", "lastTransitionTime": since,
                "reason": "Local", "message": "Local APIServices are always available"
            });
            object.make_at(&["status"]).insert("conditions", vec![available]);
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_in(object, old, &["metadata"], &["labels", "annotations", "finalizers", "ownerReferences"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        let (group, version) = (spec.str_at(&["group"]), spec.str_at(&["version"]));
        right_name(object, &format!("{version}.{group}"), &mut errors);
        let at = path.child("group");
        if group.is_empty() && version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required(&at, detail));
        }
        if !group.is_empty() {
            checks::subdomain(&at, group, &mut errors);
        }
        checks::invalid_for(&path.child("version"), version, names::dns1035_label(version), &mut errors);
        for (name, max) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
            let priority = spec.int_at(&[name]).unwrap_or(0);
            if !(1..=max).contains(&priority) {
                let detail = format!("must be positive and less than {max}");
                errors.push(FieldError::invalid(&path.child(name), priority, detail));
            }
        }
        service(spec, &path, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for (at, condition) in
            errors.while_room(items(member(object, "status"), "conditions", &FieldPath::new("status")))
        {
            let status = condition.str_at(&["status"]);
            checks::one_of(&at.child("status"), status, &["True", "False", "Unknown"], &mut errors);
        }
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        binnacle_validation::names::path_segment(name, prefix)
    }
}

/// Validates the name, which consists of the version and the group.
fn right_name(object: &Value, wanted: &str, errors: &mut FieldErrors) {
    for field in ["generateName", "name"] {
        let name = object.str_at(&["metadata", field]);
        let is_segment = names::path_segment(name, field == "generateName").is_empty();
        if !name.is_empty() && is_segment && name != wanted {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", binnacle_meta::go_quote(wanted));
            errors.push(FieldError::invalid(&FieldPath::new("metadata").child(field), name, detail));
        }
    }
}

fn service(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let insecure = spec.bool_at(&["insecureSkipTLSVerify"]);
    let bundle = spec.str_at(&["caBundle"]);
    let insecure_path = path.child("insecureSkipTLSVerify");
    let Some(service) = present(spec, "service") else {
        if !bundle.is_empty() {
            let size = format!("{} bytes", decoded_len(bundle));
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), &size, detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&insecure_path, true, detail));
        }
        return;
    };
    let path = path.child("service");
    checks::required(&path.child("namespace"), service.str_at(&["namespace"]), errors);
    checks::required(&path.child("name"), service.str_at(&["name"]), errors);
    let port = service.int_at(&["port"]).unwrap_or(0);
    let messages = names::port_number(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    if insecure && !bundle.is_empty() {
        errors.push(FieldError::invalid(&insecure_path, true, "may not be true if caBundle is present"));
    }
}

/// Returns the length in bytes of decoded canonical base64 text.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
