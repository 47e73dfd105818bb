//! Validation of pods for Windows: Windows options, and no Linux fields.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, PodOS, PodSecurityContext as PodContext, PodSpec, SecurityContext as Context,
    WindowsSecurityContextOptions as Options,
};
use binnacle_fields::types::Str;
use binnacle_meta::FieldErrors;
use binnacle_validation::checks;

use super::forbid;
use crate::Features;
use crate::pod_spec::containers::all_containers;

const CREDENTIAL_SPEC_MAX: usize = 64 * 1024;
const DOMAIN_MAX: usize = 256;
const USER_MAX: usize = 104;

const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";

/// Validates `windowsOptions` of a security context.
pub(super) fn options(options: FieldRef<Options>, errors: &mut FieldErrors) {
    let name = options.at(Options::GMSA_CREDENTIAL_SPEC_NAME);
    if let Some(given) = name.get_str() {
        checks::typed_subdomain(&name, given, errors);
    }
    let spec = options.at(Options::GMSA_CREDENTIAL_SPEC);
    if let Some(given) = spec.get_str() {
        if given.is_empty() {
            errors.push(spec.invalid_as(spec.shown_as_json(), "gmsaCredentialSpec cannot be an empty string"));
        } else if given.len() > CREDENTIAL_SPEC_MAX {
            errors.push(spec.invalid_as(spec.shown_as_json(), "gmsaCredentialSpec size must be under 64 KiB"));
        }
    }
    let user = options.at(Options::RUN_AS_USER_NAME);
    if user.is_set() {
        user_name(user, errors);
    }
}

/// Requires that either all containers are host processes or none.
pub(super) fn host_processes(features: &Features, spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    let context = spec.at(PodSpec::SECURITY_CONTEXT);
    let of_pod = context.at(PodContext::WINDOWS_OPTIONS).at(Options::HOST_PROCESS).get_bool();
    let (mut count, mut host) = (0, 0);
    for container in errors.while_room(all_containers(&spec).iter()) {
        count += 1;
        let context = container.at(Container::SECURITY_CONTEXT);
        let options = context.at(Context::WINDOWS_OPTIONS);
        let own = options.at(Options::HOST_PROCESS);
        if let (Some(of_pod), Some(given)) = (of_pod, own.get_bool())
            && of_pod != given
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.push(own.invalid(why));
        }
        host += usize::from(own.get_bool().or(of_pod) == Some(true));
    }
    if host == 0 {
        return;
    }
    if host != count {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(spec.invalid_as("", why));
    }
    let network = spec.at(PodSpec::HOST_NETWORK);
    if !network.bool() {
        errors.push(network.invalid_as(false, "hostNetwork must be true if pod contains any hostProcess containers"));
    }
    if !features.allow_privileged {
        errors.push(spec.forbidden("hostProcess containers are disallowed by cluster policy"));
    }
}

/// Validates a pod against its operating system: rejects fields of the other one.
pub(super) fn operating_system(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    let os = spec.at(PodSpec::OS);
    if !os.is_set() {
        return;
    }
    let name = os.at(PodOS::NAME);
    match name.str() {
        "" => errors.push(name.required("")),
        "linux" => linux(spec, errors),
        "windows" => windows(spec, errors),
        other => checks::one_of(&os, other, &["linux", "windows"], errors),
    }
}

fn linux(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    forbid(spec.at(PodSpec::SECURITY_CONTEXT).at(PodContext::WINDOWS_OPTIONS), NOT_FOR_LINUX, errors);
    for container in errors.while_room(all_containers(&spec).iter()) {
        forbid(container.at(Container::SECURITY_CONTEXT).at(Context::WINDOWS_OPTIONS), NOT_FOR_LINUX, errors);
    }
}

fn windows(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    macro_rules! forbid {
        ($holder:ident: $($field:expr),*) => {$(forbid($holder.at($field), NOT_FOR_WINDOWS, errors);)*};
    }
    let context = spec.at(PodSpec::SECURITY_CONTEXT);
    forbid!(context: PodContext::APP_ARMOR_PROFILE, PodContext::SE_LINUX_OPTIONS);
    forbid!(spec: PodSpec::HOST_USERS);
    // These are not pointers in Go: false equals absent.
    for field in [PodSpec::HOST_PID, PodSpec::HOST_IPC] {
        let field = spec.at(field);
        if field.bool() {
            errors.push(field.forbidden(NOT_FOR_WINDOWS));
        }
    }
    forbid!(context: PodContext::SECCOMP_PROFILE, PodContext::FS_GROUP, PodContext::FS_GROUP_CHANGE_POLICY);
    let sysctls = context.at(PodContext::SYSCTLS);
    if !sysctls.is_empty() {
        errors.push(sysctls.forbidden(NOT_FOR_WINDOWS));
    }
    forbid!(spec: PodSpec::SHARE_PROCESS_NAMESPACE);
    forbid!(context: PodContext::RUN_AS_USER, PodContext::RUN_AS_GROUP);
    let groups = context.at(PodContext::SUPPLEMENTAL_GROUPS);
    if !groups.is_empty() {
        errors.push(groups.forbidden(NOT_FOR_WINDOWS));
    }
    forbid!(context: PodContext::SUPPLEMENTAL_GROUPS_POLICY, PodContext::SE_LINUX_CHANGE_POLICY);
    for container in all_containers(&spec).iter() {
        let context = container.at(Container::SECURITY_CONTEXT);
        forbid!(context: Context::APP_ARMOR_PROFILE, Context::SE_LINUX_OPTIONS, Context::SECCOMP_PROFILE);
        forbid!(context: Context::CAPABILITIES, Context::READ_ONLY_ROOT_FILESYSTEM, Context::PRIVILEGED);
        forbid!(context: Context::ALLOW_PRIVILEGE_ESCALATION, Context::PROC_MOUNT);
        forbid!(context: Context::RUN_AS_USER, Context::RUN_AS_GROUP);
    }
}

/// Validates `DOMAIN\user` or `user`.
fn user_name(field: FieldRef<Str>, errors: &mut FieldErrors) {
    let name = field.str();
    let mut wrong = |why: &str| errors.push(field.invalid_as(field.shown_as_json(), why));
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
    fn validates_windows_user_names() {
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
            user_name(FieldRef::root(&name.into()), &mut errors);
            assert_eq!(errors.len(), count, "{name:?} {errors:?}");
        }
    }
}
