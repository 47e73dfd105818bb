//! Validation of the security contexts of pods and containers.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    AppArmorProfile, Capabilities, Container, PodSecurityContext as PodContext, PodSpec, SeccompProfile,
    SecurityContext as Context, Sysctl,
};
use binnacle_fields::types::{Int, List};
use binnacle_meta::FieldErrors;
use binnacle_validation::checks;
use binnacle_validation::names::inclusive_range_error;

use super::{PodValidationOptions, optional_one_of, paths, windows};
use crate::checks::repeated;
use crate::pod_spec::containers::all_containers;
use crate::{Features, internal};

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

pub(super) fn of_pod(spec: FieldRef<PodSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let context = spec.at(PodSpec::SECURITY_CONTEXT);
    if !context.is_set() {
        return;
    }
    for field in [PodContext::FS_GROUP, PodContext::RUN_AS_USER, PodContext::RUN_AS_GROUP] {
        id(context.at(field), errors);
    }
    let groups = context.at(PodContext::SUPPLEMENTAL_GROUPS);
    for group in errors.while_room(groups.items()) {
        id(group, errors);
    }
    // The internal type has this field in the security context.
    let moved = spec.located_at(&context);
    let shared = moved.at(PodSpec::SHARE_PROCESS_NAMESPACE);
    if shared.bool() && spec.at(PodSpec::HOST_PID).bool() {
        errors.push(shared.invalid("ShareProcessNamespace and HostPID cannot both be enabled"));
    }
    sysctls(spec, context.at(PodContext::SYSCTLS), options, errors);
    optional_one_of(context.at(PodContext::FS_GROUP_CHANGE_POLICY), &["Always", "OnRootMismatch"], errors);
    seccomp_profile(context.at(PodContext::SECCOMP_PROFILE), errors);
    windows::options(context.at(PodContext::WINDOWS_OPTIONS), errors);
    app_armor_profile(context.at(PodContext::APP_ARMOR_PROFILE), errors);
    optional_one_of(context.at(PodContext::SUPPLEMENTAL_GROUPS_POLICY), &["Merge", "Strict"], errors);
    let any = options.any_selinux_policy || options.features.enabled("SELinuxMount");
    let policies: &[&str] = if any { &["MountOption", "Recursive"] } else { &["Recursive"] };
    optional_one_of(context.at(PodContext::SE_LINUX_CHANGE_POLICY), policies, errors);
}

pub(super) fn of_container(
    features: &Features,
    container: FieldRef<Container>,
    host_users: bool,
    errors: &mut FieldErrors,
) {
    let context = container.at(Container::SECURITY_CONTEXT);
    if !context.is_set() {
        return;
    }
    let privileged = context.at(Context::PRIVILEGED);
    if privileged.bool() && !features.allow_privileged {
        errors.push(privileged.forbidden("disallowed by cluster policy"));
    }
    for field in [Context::RUN_AS_USER, Context::RUN_AS_GROUP] {
        id(context.at(field), errors);
    }
    let mount = context.at(Context::PROC_MOUNT);
    optional_one_of(mount, &["Default", "Unmasked"], errors);
    if host_users && mount.str() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp_profile(context.at(Context::SECCOMP_PROFILE), errors);
    if context.at(Context::ALLOW_PRIVILEGE_ESCALATION).get_bool() == Some(false) {
        let mut contradiction = |what: &str| {
            let why = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(context.invalid_as(internal::shown(context), why));
        };
        if privileged.bool() {
            contradiction("`privileged` to true");
        }
        let capabilities = context.at(Context::CAPABILITIES);
        let added = capabilities.at(Capabilities::ADD).strs().filter(|added| *added == "CAP_SYS_ADMIN");
        added.for_each(|_| contradiction("`capabilities.Add` CAP_SYS_ADMIN"));
    }
    windows::options(context.at(Context::WINDOWS_OPTIONS), errors);
    app_armor_profile(context.at(Context::APP_ARMOR_PROFILE), errors);
}

/// Rejects shared host namespaces in a pod with a user namespace.
pub(super) fn host_users(spec: FieldRef<PodSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.at(PodSpec::HOST_USERS).get_bool() != Some(false) {
        return;
    }
    let network = spec.at(PodSpec::HOST_NETWORK);
    if network.bool()
        && !options.users_with_host_network
        && !options.features.enabled("UserNamespacesHostNetworkSupport")
    {
        errors.push(network.forbidden(WHY));
    }
    // kube-apiserver's paths have Go's names for these two.
    for (field, shown) in [(PodSpec::HOST_PID, "HostPID"), (PodSpec::HOST_IPC, "HostIPC")] {
        let field = spec.at(field);
        if field.bool() {
            errors.push(field.reported_as(shown).forbidden(WHY));
        }
    }
    if !options.users_with_devices {
        for container in errors.while_room(all_containers(&spec).iter()) {
            let devices = container.at(Container::VOLUME_DEVICES);
            if !devices.is_empty() {
                errors.push(devices.forbidden(WHY));
            }
        }
    }
}

/// Returns the reason why a sysctl cannot be set: it belongs to a namespace that the pod shares with its host.
pub(super) fn host_sysctl(spec: FieldRef<PodSpec>, name: &str) -> Option<&'static str> {
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
    if spec.at(PodSpec::HOST_NETWORK).bool() && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    let ipc = IPC_SYSCTLS.contains(&name.as_str()) || name.starts_with("fs.mqueue.");
    (spec.at(PodSpec::HOST_IPC).bool() && ipc).then_some("may not be specified when 'hostIPC' is true")
}

fn app_armor_profile(profile: FieldRef<AppArmorProfile>, errors: &mut FieldErrors) {
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.at(AppArmorProfile::TYPE), profile.at(AppArmorProfile::LOCALHOST_PROFILE));
    match (kind.str(), local.get_str()) {
        ("", _) => errors.push(kind.required("type is required when appArmorProfile is set")),
        ("Localhost", None) => errors.push(local.required(NEEDED)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.push(local.invalid("must not be padded with whitespace"));
            } else if name.is_empty() {
                errors.push(local.required(NEEDED));
            }
            if name.len() > PROFILE_MAX {
                errors.push(local.too_long(PROFILE_MAX));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(_)) => {
            errors.push(local.invalid_as(local.shown_as_json(), "can only be set when AppArmor type is Localhost"));
        }
        (given, _) => checks::one_of(&kind, given, &PROFILE_TYPES, errors),
    }
}

fn seccomp_profile(profile: FieldRef<SeccompProfile>, errors: &mut FieldErrors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.at(SeccompProfile::TYPE), profile.at(SeccompProfile::LOCALHOST_PROFILE));
    if kind.is_empty() {
        errors.push(kind.required("type is required when seccompProfile is set"));
    } else {
        checks::one_of(&kind, kind.str(), &PROFILE_TYPES, errors);
    }
    match (kind.str(), local.get_str()) {
        ("Localhost", None) => errors.push(local.required("must be set when seccomp type is Localhost")),
        ("Localhost", Some(name)) => paths::descending(&local, name, errors),
        (_, Some(_)) => {
            let why = "can only be set when seccomp type is Localhost";
            errors.push(local.invalid_as(internal::shown(profile), why));
        }
        (_, None) => {}
    }
}

fn sysctls(
    spec: FieldRef<PodSpec>,
    list: FieldRef<List<Sysctl>>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let repeated = repeated(list, Sysctl::NAME);
    for (i, sysctl) in errors.while_room(list.items().enumerate()) {
        let name = sysctl.at(Sysctl::NAME);
        let given = name.str();
        if given.is_empty() {
            errors.push(name.required(""));
        } else if !is_sysctl(given) {
            let why = format!("must have at most {SYSCTL_MAX} characters and match regex {SYSCTL}");
            errors.push(name.invalid(why));
        } else if repeated[i] {
            errors.push(name.duplicate());
        }
        if !options.any_host_sysctl
            && let Some(why) = host_sysctl(spec, given)
        {
            errors.push(name.invalid_as(given, why));
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

fn id(id: FieldRef<Int>, errors: &mut FieldErrors) {
    if id.int().is_some_and(|number| !(0..=ID_MAX).contains(&number)) {
        errors.push(id.invalid(inclusive_range_error(0, ID_MAX)));
    }
}
