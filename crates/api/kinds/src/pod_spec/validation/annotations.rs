//! Validation of annotations with a meaning for pods: their values, and their agreement with the fields that replaced
//! them.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, PodSecurityContext as PodContext, PodSpec, SeccompProfile, SecurityContext as Context, Toleration,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{List, Map, Str};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Limits, Object, Value, json};
use binnacle_validation::tolerations;

use super::{PodValidationOptions, is_windows, paths};
use crate::pod_spec::containers::all_containers;

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Validates the annotations of a pod or template.
pub(crate) fn validate(
    given: FieldRef<Map<Str>>,
    spec: FieldRef<PodSpec>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let Some(annotations) = given.object().filter(|annotations| !annotations.is_empty()) else { return };
    let path = &given.path();
    let text = |name: &str| annotations.get(name).and_then(Value::as_str);
    if let Some(value) = text(MIRROR)
        && spec.at(PodSpec::NODE_NAME).is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), value, why));
    }
    if let Some(value) = text(TOLERATIONS).filter(|value| !value.is_empty()) {
        tolerations(value, path, options, errors);
    }
    if let Some(value) = text(DELETION_COST)
        && !options.any_deletion_cost
        && !is_deletion_cost(value)
    {
        errors.push(FieldError::invalid(&path.key(DELETION_COST), value, "must be a 32bit integer"));
    }
    if let Some(profile) = text(SECCOMP_POD) {
        seccomp(profile, &path.child(SECCOMP_POD), errors);
    }
    let containers: HashSet<&str> = match annotations.keys().any(|name| name.starts_with(APP_ARMOR)) {
        true => all_containers(&spec).iter().map(|container| container.at(Container::NAME).str()).collect(),
        false => HashSet::new(),
    };
    for (name, value) in errors.while_room(annotations.iter()) {
        let value = value.as_str().unwrap_or("");
        if name.starts_with(SECCOMP_CONTAINER) {
            seccomp(value, &path.child(name), errors);
        }
        if let Some(container) = name.strip_prefix(APP_ARMOR) {
            let at = path.key(name);
            if !containers.contains(container) {
                errors.push(FieldError::invalid(&at, container, "container not found"));
            }
            if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
                let why = format!("invalid AppArmor profile name: {}", binnacle_meta::go_quote(value));
                errors.push(FieldError::invalid(&at, value, why));
            }
        }
    }
}

/// Returns true if an object's deletion cost is invalid, which an update may then keep.
pub(crate) fn has_invalid_deletion_cost(annotations: Option<&Object>) -> bool {
    let cost = annotations.and_then(|annotations| annotations.get(DELETION_COST)).and_then(Value::as_str);
    cost.is_some_and(|cost| !is_deletion_cost(cost))
}

/// Reports seccomp and AppArmor profiles that differ between a field and an annotation.
pub(crate) fn match_fields(annotations: Option<&Object>, spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) else { return };
    let text = |name: &str| annotations.get(name).and_then(Value::as_str);
    let context = spec.at(PodSpec::SECURITY_CONTEXT);
    if let Some(annotation) = text(SECCOMP_POD) {
        seccomp_matches(context.at(PodContext::SECCOMP_PROFILE), annotation, errors);
    }
    let containers = all_containers(&spec);
    for container in errors.while_room(containers.iter()) {
        let name = container.at(Container::NAME).str();
        if let Some(annotation) = text(&format!("{SECCOMP_CONTAINER}{name}")) {
            let context = container.at(Container::SECURITY_CONTEXT);
            seccomp_matches(context.at(Context::SECCOMP_PROFILE), annotation, errors);
        }
    }
    if is_windows(spec) {
        return;
    }
    let of_pod = context.at(PodContext::APP_ARMOR_PROFILE);
    for container in errors.while_room(containers.iter()) {
        let name = container.at(Container::NAME).str();
        if let Some(annotation) = text(&format!("{APP_ARMOR}{name}")) {
            let context = container.at(Container::SECURITY_CONTEXT);
            let own = context.at(Context::APP_ARMOR_PROFILE);
            let profile = own.set().unwrap_or(of_pod.located_at(&own));
            // Seccomp profiles have the same fields.
            profile_matches("apparmor", profile.cast(), annotation, &["runtime/default"], errors);
        }
    }
}

/// Reports changes of pod annotations that are immutable.
pub(crate) fn validate_update(new: Option<&Object>, old: Option<&Object>, path: &FieldPath, errors: &mut FieldErrors) {
    let none = Object::new();
    let (new, old) = (new.unwrap_or(&none), old.unwrap_or(&none));
    for (name, _) in errors.while_room(old.iter().filter(|(name, value)| new.get(name) != Some(value))) {
        if name.starts_with(APP_ARMOR) {
            errors.push(FieldError::forbidden(&path.key(name), "may not remove or update AppArmor annotations"));
        }
        if name == MIRROR {
            errors.push(FieldError::forbidden(&path.key(name), "may not remove or update mirror pod annotation"));
        }
    }
    for (name, _) in errors.while_room(new.iter().filter(|(name, _)| !old.contains(name))) {
        if name.starts_with(APP_ARMOR) {
            errors.push(FieldError::forbidden(&path.key(name), "may not add AppArmor annotations"));
        }
        if name == MIRROR {
            errors.push(FieldError::forbidden(&path.key(name), "may not add mirror pod annotation"));
        }
    }
}

/// Returns true for the mirror pod of a static pod, which gets no objects such as resource claims.
pub(super) fn is_mirror(metadata: Option<FieldRef<ObjectMeta>>) -> bool {
    let annotations = metadata.and_then(|metadata| metadata.at(ObjectMeta::ANNOTATIONS).object());
    annotations.is_some_and(|annotations| annotations.contains(MIRROR))
}

fn tolerations(value: &str, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    match json::parse(value.as_bytes(), &Limits::default()) {
        Ok(Value::List(list)) => {
            let (list, path) = (Value::List(list), path.child(TOLERATIONS));
            let list = FieldRef::<List<Toleration>>::located(&list, &path);
            tolerations::validate(list.items(), options.compares_tolerations(), errors);
        }
        Ok(Value::Null) => {}
        Ok(_) => {
            let why = "json: cannot unmarshal object into Go value of type []v1.Toleration";
            errors.push(FieldError::invalid(path, TOLERATIONS, why));
        }
        Err(error) => errors.push(FieldError::invalid(path, TOLERATIONS, error.to_string())),
    }
}

/// Returns true for an integer without plus sign and leading zeros.
fn is_deletion_cost(value: &str) -> bool {
    let starts = value == "0" || value.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    starts && value.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, path: &FieldPath, errors: &mut FieldErrors) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(name) => paths::descending(path, name, errors),
            None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
        },
    }
}

fn seccomp_matches(profile: FieldRef<SeccompProfile>, annotation: &str, errors: &mut FieldErrors) {
    profile_matches("seccomp", profile, annotation, &["runtime/default", "docker/default"], errors);
}

/// Requires a profile, if there is one, to agree with an annotation.
fn profile_matches(
    what: &str,
    profile: FieldRef<SeccompProfile>,
    annotation: &str,
    defaults: &[&str],
    errors: &mut FieldErrors,
) {
    let (kind, local) = (profile.at(SeccompProfile::TYPE), profile.at(SeccompProfile::LOCALHOST_PROFILE));
    let same_type = match kind.str() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(name) if local.get_str() == Some(name) => true,
            Some(_) => {
                return errors.push(local.forbidden(format!("{what} profile in annotation and field must match")));
            }
            None => false,
        },
        _ => true,
    };
    if !same_type {
        errors.push(kind.forbidden(format!("{what} type in annotation and field must match")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_deletion_costs() {
        for (value, valid) in
            [("0", true), ("-5", true), ("+5", false), ("007", false), ("", false), ("3000000000", false)]
        {
            assert_eq!(is_deletion_cost(value), valid, "{value:?}");
        }
    }
}
