//! Validation of pods for Windows: Windows options, and no Linux fields.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;

use super::containers;
use crate::Features;
use crate::tree_names::member;

const CREDENTIAL_SPEC_MAX: usize = 64 * 1024;
const DOMAIN_MAX: usize = 256;
const USER_MAX: usize = 104;

const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";

/// Validates `windowsOptions` of a security context.
pub(super) fn options(context: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(options) = member(context, "windowsOptions") else { return };
    let path = path.child("windowsOptions");
    let text = |field: &str| options.get(field).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        checks::subdomain(&path.child("gmsaCredentialSpecName"), name, errors);
    }
    if let Some(spec) = text("gmsaCredentialSpec") {
        let at = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.push(FieldError::invalid(&at, spec, "gmsaCredentialSpec cannot be an empty string"));
        } else if spec.len() > CREDENTIAL_SPEC_MAX {
            errors.push(FieldError::invalid(&at, spec, "gmsaCredentialSpec size must be under 64 KiB"));
        }
    }
    if let Some(name) = text("runAsUserName") {
        user_name(name, &path.child("runAsUserName"), errors);
    }
}

/// Requires that either all containers are host processes or none.
pub(super) fn host_processes(features: &Features, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let of = |holder: &Value| holder.at(&["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool);
    let of_pod = of(spec);
    let (mut count, mut host) = (0, 0);
    for (container, at) in errors.while_room(containers::all(spec, path)) {
        count += 1;
        let own = of(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let at = at.child("securityContext").child("windowsOptions").child("hostProcess");
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.push(FieldError::invalid(&at, own, why));
        }
        host += usize::from(own.or(of_pod) == Some(true));
    }
    if host == 0 {
        return;
    }
    if host != count {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", why));
    }
    if !spec.bool_at(&["hostNetwork"]) {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), false, why));
    }
    if !features.allow_privileged {
        errors.push(FieldError::forbidden(path, "hostProcess containers are disallowed by cluster policy"));
    }
}

/// Validates a pod against its operating system: rejects fields of the other one.
pub(super) fn operating_system(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if member(spec, "os").is_none() {
        return;
    }
    match spec.str_at(&["os", "name"]) {
        "" => errors.push(FieldError::required(&path.child("os").child("name"), "")),
        "linux" => linux(spec, path, errors),
        "windows" => windows(spec, path, errors),
        other => checks::one_of(&path.child("os"), other, &["linux", "windows"], errors),
    }
}

fn linux(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut check = |holder: &Value, at: &FieldPath| {
        if holder.at(&["securityContext", "windowsOptions"]).is_some_and(|options| !options.is_null()) {
            errors.push(FieldError::forbidden(&at.child("securityContext").child("windowsOptions"), NOT_FOR_LINUX));
        }
    };
    check(spec, path);
    containers::all(spec, path).for_each(|(container, at)| check(container, &at));
}

fn windows(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let none = Value::Null;
    let context = member(spec, "securityContext").unwrap_or(&none);
    let at = path.child("securityContext");
    let is_set = |holder: &Value, field: &str| match holder.get(field) {
        // These are not pointers in Go: false equals absent.
        Some(Value::Bool(value)) if field == "hostPID" || field == "hostIPC" => *value,
        Some(Value::List(items)) => !items.is_empty(),
        Some(Value::Null) | None => false,
        Some(_) => true,
    };
    let mut forbid = |holder: &Value, fields: &[&str], at: &FieldPath| {
        for field in fields.iter().filter(|field| is_set(holder, field)) {
            errors.push(FieldError::forbidden(&at.child(field), NOT_FOR_WINDOWS));
        }
    };
    forbid(context, &["appArmorProfile", "seLinuxOptions"], &at);
    forbid(spec, &["hostUsers", "hostPID", "hostIPC"], path);
    forbid(context, &["seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"], &at);
    forbid(spec, &["shareProcessNamespace"], path);
    let last = ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"];
    forbid(context, &last, &at);
    let of_containers = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    for (container, at) in containers::all(spec, path) {
        if let Some(context) = member(container, "securityContext") {
            forbid(context, &of_containers, &at.child("securityContext"));
        }
    }
}

/// Validates `DOMAIN\user` or `user`.
fn user_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let mut wrong = |why: &str| errors.push(FieldError::invalid(path, name, why));
    if name.is_empty() {
        return wrong("runAsUserName cannot be an empty string");
    }
    if name.bytes().any(|c| c.is_ascii_control()) {
        return wrong("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => return wrong("runAsUserName cannot contain more than one backslash"),
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_MAX) {
        wrong("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_domain(domain)) {
        wrong("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong("runAsUserName's User cannot be empty");
    } else if user.len() > USER_MAX {
        wrong("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        wrong("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        wrong("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

/// Returns true for up to 15 characters without path separators, wildcards, quotes and shell characters, and without a
/// leading dot.
fn is_net_bios(domain: &str) -> bool {
    let allowed = |c: char| !['\\', '/', ':', '*', '?', '"', '<', '>', '|'].contains(&c);
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && domain.chars().all(allowed)
}

fn is_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names() {
        for (name, count) in [
            ("ContainerUser", 0),
            ("NT AUTHORITY\\System", 0),
            ("corp.example.com\\a", 0),
            ("", 1),
            ("a\\b\\c", 1),
            ("a\tb", 1),
            ("D\\", 1),
            ("..", 1),
            ("a*", 1),
            (".bad\\a", 1),
        ] {
            let mut errors = FieldErrors::new();
            user_name(name, &FieldPath::new("x"), &mut errors);
            assert_eq!(errors.len(), count, "{name:?} {errors:?}");
        }
    }
}
