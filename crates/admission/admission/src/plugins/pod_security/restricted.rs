//! The checks of the restricted standard, which enforces hardening best practices.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Capabilities, PodSecurityContext, PodSpec, SecurityContext, Volume};

use super::baseline::{bad_seccomp, seccomp as seccomp_baseline};
use super::subject::{ContainerRef, Subject, Violation, containers, name, plural, quoted, security, setters, sorted};

const VOLUMES: [&str; 9] = [
    Volume::CONFIG_MAP.name(),
    Volume::CSI.name(),
    Volume::DOWNWARD_API.name(),
    Volume::EMPTY_DIR.name(),
    Volume::EPHEMERAL.name(),
    Volume::IMAGE.name(),
    Volume::PERSISTENT_VOLUME_CLAIM.name(),
    Volume::PROJECTED.name(),
    Volume::SECRET.name(),
];

pub(super) fn privilege_escalation(subject: Subject<'_>) -> Option<Violation> {
    let bad =
        |c: &ContainerRef<'_>| security(*c).at(SecurityContext::ALLOW_PRIVILEGE_ESCALATION).get_bool() != Some(false);
    let names: Vec<&str> = subject.containers().filter(bad).map(name).collect();
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

pub(super) fn privilege_escalation_1_25(subject: Subject<'_>) -> Option<Violation> {
    unless_windows(subject, privilege_escalation)
}

pub(super) fn capabilities(subject: Subject<'_>) -> Option<Violation> {
    let (mut keeping, mut adding, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for container in subject.containers() {
        let capabilities = security(container).at(SecurityContext::CAPABILITIES).detached();
        if !capabilities.at(Capabilities::DROP).contains("ALL") {
            keeping.push(name(container));
        }
        let before = added.len();
        added.extend(capabilities.at(Capabilities::ADD).strs().filter(|c| *c != "NET_BIND_SERVICE"));
        if added.len() > before {
            adding.push(name(container));
        }
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let what = quoted(&sorted(added));
        let setters_text = containers(&adding);
        details.push(format!("{setters_text} must not include {what} in securityContext.capabilities.add"));
    }
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

pub(super) fn capabilities_1_25(subject: Subject<'_>) -> Option<Violation> {
    unless_windows(subject, capabilities)
}

pub(super) fn volumes(subject: Subject<'_>) -> Option<Violation> {
    let source = |volume: FieldRef<Volume>| {
        let members = volume.object().into_iter().flat_map(|volume| volume.iter());
        let mut sources = members.filter(|(name, value)| *name != Volume::NAME.name() && !value.is_null());
        sources.next().map_or_else(|| "unknown".to_owned(), |(name, _)| name.to_string())
    };
    let volumes = subject.spec.at(PodSpec::VOLUMES).values();
    let found: Vec<(&str, String)> = volumes
        .map(|volume| (volume.at(Volume::NAME).str(), source(volume)))
        .filter(|(_, source)| !VOLUMES.contains(&source.as_str()))
        .collect();
    if found.is_empty() {
        return None;
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let kinds = sorted(found.iter().map(|(_, kind)| kind.as_str()));
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", names.len()),
        quoted(&names),
        plural("uses", "use", names.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    Violation::new("restricted volume types", detail)
}

pub(super) fn run_as_non_root(subject: Subject<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = subject.security().at(PodSecurityContext::RUN_AS_NON_ROOT).get_bool();
    let setting = |c| security(c).at(SecurityContext::RUN_AS_NON_ROOT).get_bool();
    let with_setting = |what| subject.containers().filter(move |c| setting(*c) == what).map(name).collect::<Vec<_>>();
    if let Some(setters_text) = setters(of_pod == Some(false), &with_setting(Some(false))) {
        return Violation::new(REASON, format!("{setters_text} must not set securityContext.runAsNonRoot=false"));
    }
    let unset = with_setting(None);
    if of_pod == Some(true) || unset.is_empty() {
        return None;
    }
    Violation::new(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&unset)))
}

pub(super) fn run_as_non_root_1_35(subject: Subject<'_>) -> Option<Violation> {
    if subject.has_own_users() { None } else { run_as_non_root(subject) }
}

pub(super) fn run_as_user(subject: Subject<'_>) -> Option<Violation> {
    let is_root = |c: &ContainerRef<'_>| security(*c).at(SecurityContext::RUN_AS_USER).int() == Some(0);
    let names: Vec<&str> = subject.containers().filter(is_root).map(name).collect();
    let setters_text = setters(subject.security().at(PodSecurityContext::RUN_AS_USER).int() == Some(0), &names)?;
    Violation::new("runAsUser=0", format!("{setters_text} must not set runAsUser=0"))
}

pub(super) fn run_as_user_1_35(subject: Subject<'_>) -> Option<Violation> {
    if subject.has_own_users() { None } else { run_as_user(subject) }
}

pub(super) fn seccomp(subject: Subject<'_>) -> Option<Violation> {
    if let Some(violation) = seccomp_baseline(subject) {
        return Some(violation);
    }
    let of_pod = subject.security().at(PodSecurityContext::SECCOMP_PROFILE).detached();
    let confined = of_pod.is_set() && bad_seccomp(of_pod).is_none();
    let unset = |c: &ContainerRef<'_>| !security(*c).at(SecurityContext::SECCOMP_PROFILE).is_set();
    let names: Vec<&str> = subject.containers().filter(unset).map(name).collect();
    if confined || names.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&names)
    );
    Violation::new("seccompProfile", detail)
}

pub(super) fn seccomp_1_25(subject: Subject<'_>) -> Option<Violation> {
    unless_windows(subject, seccomp)
}

/// Applies a rule for Linux, unless the pod is for Windows.
fn unless_windows(subject: Subject<'_>, rule: fn(Subject<'_>) -> Option<Violation>) -> Option<Violation> {
    if subject.is_windows() { None } else { rule(subject) }
}
