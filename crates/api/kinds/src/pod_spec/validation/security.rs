//! Validation of the security contexts of pods and containers.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::repeated;

use super::{PodValidationOptions, paths, windows};
use crate::Features;
use crate::internal;
use crate::tree_names::member;

const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL_MAX: usize = 253;
const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE_MAX: usize = 4095;

/// Sysctls of the IPC namespace, besides `fs.mqueue.*`.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

pub(super) fn of_pod(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let Some(context) = member(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&path.child(field), context.int_at(&[field]), errors);
    }
    for (i, group) in errors.while_room(context.list_at(&["supplementalGroups"]).iter().enumerate()) {
        id(&path.child("supplementalGroups").index(i), group.as_i64(), errors);
    }
    if spec.bool_at(&["shareProcessNamespace"]) && spec.bool_at(&["hostPID"]) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), true, why));
    }
    sysctls(spec, context.list_at(&["sysctls"]), &path.child("sysctls"), options, errors);
    let one_of = |field: &str, supported: &[&str], errors: &mut FieldErrors| {
        if let Some(value) = context.get(field).and_then(Value::as_str) {
            checks::one_of(&path.child(field), value, supported, errors);
        }
    };
    one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    seccomp_profile(context, path, errors);
    windows::options(context, path, errors);
    app_armor_profile(context, path, errors);
    one_of("supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    let any = options.any_selinux_policy || options.features.enabled("SELinuxMount");
    let policies: &[&str] = if any { &["MountOption", "Recursive"] } else { &["Recursive"] };
    one_of("seLinuxChangePolicy", policies, errors);
}

pub(super) fn of_container(
    features: &Features,
    container: &Value,
    host_users: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(context) = member(container, "securityContext") else { return };
    let path = path.child("securityContext");
    let privileged = context.bool_at(&["privileged"]);
    if privileged && !features.allow_privileged {
        errors.push(FieldError::forbidden(&path.child("privileged"), "disallowed by cluster policy"));
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(&path.child(field), context.int_at(&[field]), errors);
    }
    if let Some(mount) = context.get("procMount").and_then(Value::as_str) {
        checks::one_of(&path.child("procMount"), mount, &["Default", "Unmasked"], errors);
        if host_users && mount == "Unmasked" {
            let why = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid(&path.child("procMount"), mount, why));
        }
    }
    seccomp_profile(context, &path, errors);
    if context.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false) {
        let mut contradiction = |what: &str| {
            let shown = internal::shown_as("io.k8s.api.core.v1.SecurityContext", Some(context));
            let why = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(FieldError::invalid(&path, shown, why));
        };
        if privileged {
            contradiction("`privileged` to true");
        }
        let added = context.list_at(&["capabilities", "add"]).iter();
        added
            .filter(|capability| capability.as_str() == Some("CAP_SYS_ADMIN"))
            .for_each(|_| contradiction("`capabilities.Add` CAP_SYS_ADMIN"));
    }
    windows::options(context, &path, errors);
    app_armor_profile(context, &path, errors);
}

/// Rejects shared host namespaces in a pod with a user namespace.
pub(super) fn host_users(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.get("hostUsers").and_then(Value::as_bool) != Some(false) {
        return;
    }
    if spec.bool_at(&["hostNetwork"])
        && !options.users_with_host_network
        && !options.features.enabled("UserNamespacesHostNetworkSupport")
    {
        errors.push(FieldError::forbidden(&path.child("hostNetwork"), WHY));
    }
    // kube-apiserver's paths have Go's names for these two.
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.bool_at(&[field]) {
            errors.push(FieldError::forbidden(&path.child(shown), WHY));
        }
    }
    if !options.users_with_devices {
        for (container, at) in errors.while_room(super::containers::all(spec, path)) {
            if !container.list_at(&["volumeDevices"]).is_empty() {
                errors.push(FieldError::forbidden(&at.child("volumeDevices"), WHY));
            }
        }
    }
}

/// Returns the reason why a sysctl cannot be set: it belongs to a namespace that the pod shares with its host.
pub(super) fn host_sysctl(spec: &Value, name: &str) -> Option<&'static str> {
    // If a slash comes first, dots and slashes are swapped.
    let name: String = match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => name
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    };
    if spec.bool_at(&["hostNetwork"]) && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    let ipc = IPC_SYSCTLS.contains(&name.as_str()) || name.starts_with("fs.mqueue.");
    (spec.bool_at(&["hostIPC"]) && ipc).then_some("may not be specified when 'hostIPC' is true")
}

/// Validates an AppArmor profile.
pub(super) fn app_armor_profile(context: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = member(context, "appArmorProfile") else { return };
    let path = path.child("appArmorProfile");
    let at = path.child("localhostProfile");
    let name = profile.get("localhostProfile").and_then(Value::as_str);
    match (profile.str_at(&["type"]), name) {
        ("", _) => {
            errors.push(FieldError::required(&path.child("type"), "type is required when appArmorProfile is set"));
        }
        ("Localhost", None) => errors.push(FieldError::required(&at, NEEDED)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.push(FieldError::invalid(&at, name, "must not be padded with whitespace"));
            } else if name.is_empty() {
                errors.push(FieldError::required(&at, NEEDED));
            }
            if name.len() > PROFILE_MAX {
                errors.push(FieldError::too_long(&at, PROFILE_MAX));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.push(FieldError::invalid(&at, name, "can only be set when AppArmor type is Localhost"));
        }
        (kind, _) => checks::one_of(&path.child("type"), kind, &PROFILE_TYPES, errors),
    }
}

fn seccomp_profile(context: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(profile) = member(context, "seccompProfile") else { return };
    let path = path.child("seccompProfile");
    let kind = profile.str_at(&["type"]);
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "type is required when seccompProfile is set"));
    } else {
        checks::one_of(&path.child("type"), kind, &PROFILE_TYPES, errors);
    }
    let at = path.child("localhostProfile");
    match (kind, profile.get("localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => {
            errors.push(FieldError::required(&at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(name)) => paths::descending(&at, name, errors),
        (_, Some(_)) => {
            let shown = internal::shown_as("io.k8s.api.core.v1.SeccompProfile", Some(profile));
            errors.push(FieldError::invalid(&at, shown, "can only be set when seccomp type is Localhost"));
        }
        (_, None) => {}
    }
}

fn sysctls(
    spec: &Value,
    list: &[Value],
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let repeated = repeated(list, |sysctl| sysctl.str_at(&["name"]));
    for (i, sysctl) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i).child("name");
        let name = sysctl.str_at(&["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !is_sysctl(name) {
            let why = format!("must have at most {SYSCTL_MAX} characters and match regex {SYSCTL}");
            errors.push(FieldError::invalid(&at, name, why));
        } else if repeated[i] {
            errors.push(FieldError::duplicate(&at, name));
        }
        if !options.any_host_sysctl
            && let Some(why) = host_sysctl(spec, name)
        {
            errors.push(FieldError::invalid(&at, name, why));
        }
    }
}

/// Returns true for segments of lower-case letters, digits, dashes and underscores, joined by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let alphanumeric = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= SYSCTL_MAX
        && name.split(['.', '/']).all(|segment| {
            alphanumeric(segment.bytes().next())
                && alphanumeric(segment.bytes().next_back())
                && segment.bytes().all(|c| alphanumeric(Some(c)) || c == b'-' || c == b'_')
        })
}

fn id(path: &FieldPath, id: Option<i64>, errors: &mut FieldErrors) {
    if let Some(id) = id
        && !(0..=ID_MAX).contains(&id)
    {
        errors.push(FieldError::invalid(path, id, inclusive_range_error(0, ID_MAX)));
    }
}
