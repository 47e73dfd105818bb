//! The checks of the baseline standard, which prevents known privilege escalations.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    AppArmorProfile, Capabilities, Container, ContainerPort, HTTPGetAction, Lifecycle, PodSecurityContext, PodSpec,
    Probe, SELinuxOptions, SeccompProfile, SecurityContext, Sysctl, TCPSocketAction, Volume,
    WindowsSecurityContextOptions,
};

use super::subject::{ContainerRef, Subject, Violation, containers, name, plural, quoted, security, setters, sorted};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The sysctls that only affect the pod, in the order of the versions that allow them.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

const SE_LINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_SECCOMP_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

pub(super) fn app_armor(subject: Subject<'_>) -> Option<Violation> {
    let of_pod = bad_app_armor(subject.security().at(PodSecurityContext::APP_ARMOR_PROFILE));
    let of_containers: Vec<(&str, &str)> = subject
        .containers()
        .filter_map(|c| Some((name(c), bad_app_armor(security(c).at(SecurityContext::APP_ARMOR_PROFILE))?)))
        .collect();
    let allowed =
        |profile: &str| profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
    let mut annotations: Vec<String> = subject
        .annotations()
        .filter(|(key, profile)| key.starts_with(APP_ARMOR_ANNOTATION) && !allowed(profile))
        .map(|(key, profile)| format!("{key}={}", binnacle_meta::go_quote(profile)))
        .collect();
    annotations.sort();

    let names: Vec<&str> = of_containers.iter().map(|(name, _)| *name).collect();
    let mut setters_text: Vec<String> = Vec::new();
    setters_text.extend(of_pod.is_some().then(|| "pod".to_owned()));
    setters_text.extend((!names.is_empty()).then(|| containers(&names)));
    setters_text
        .extend((!annotations.is_empty()).then(|| plural("annotation", "annotations", annotations.len()).to_owned()));
    if setters_text.is_empty() {
        return None;
    }
    let kinds = of_pod.into_iter().chain(of_containers.iter().map(|(_, kind)| *kind));
    let mut values: Vec<&str> = sorted(kinds);
    values.extend(annotations.iter().map(String::as_str));
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", setters_text.join(" and "), quoted(&values));
    Violation::new(reason, detail)
}

pub(super) fn capabilities(subject: Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut forbidden = Vec::new();
    for container in subject.containers() {
        let added = security(container).at(SecurityContext::CAPABILITIES).at(Capabilities::ADD).strs();
        let before = forbidden.len();
        forbidden.extend(added.filter(|capability| !CAPABILITIES.contains(capability)));
        if forbidden.len() > before {
            names.push(name(container));
        }
    }
    if names.is_empty() {
        return None;
    }
    let (setters_text, what) = (containers(&names), quoted(&sorted(forbidden)));
    Violation::new(
        "non-default capabilities",
        format!("{setters_text} must not include {what} in securityContext.capabilities.add"),
    )
}

pub(super) fn host_namespaces(subject: Subject<'_>) -> Option<Violation> {
    let shared: Vec<String> = [PodSpec::HOST_NETWORK, PodSpec::HOST_PID, PodSpec::HOST_IPC]
        .into_iter()
        .filter(|field| subject.spec.at(*field).bool())
        .map(|field| format!("{}=true", field.name()))
        .collect();
    if shared.is_empty() {
        return None;
    }
    Violation::new("host namespaces", shared.join(", "))
}

pub(super) fn host_path_volumes(subject: Subject<'_>) -> Option<Violation> {
    let volumes = subject.spec.at(PodSpec::VOLUMES).values();
    let of_host = volumes.filter(|volume| volume.at(Volume::HOST_PATH).is_set());
    let names: Vec<&str> = of_host.map(|volume| volume.at(Volume::NAME).str()).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)))
}

pub(super) fn host_ports(subject: Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut ports: Vec<String> = Vec::new();
    for container in subject.containers() {
        let own = container.at(Container::PORTS).values().map(|port| port.at(ContainerPort::HOST_PORT).int_or_zero());
        let before = ports.len();
        ports.extend(own.filter(|port| *port != 0).map(|port| port.to_string()));
        if ports.len() > before {
            names.push(name(container));
        }
    }
    if names.is_empty() {
        return None;
    }
    let ports = sorted(ports.iter().map(String::as_str));
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.join(", ")
    );
    Violation::new("hostPort", detail)
}

pub(super) fn probe_hosts(subject: Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut hosts = Vec::new();
    for container in subject.containers() {
        let lifecycle = container.at(Container::LIFECYCLE);
        let probes = [Container::LIVENESS_PROBE, Container::READINESS_PROBE, Container::STARTUP_PROBE];
        // Lifecycle handlers have the fields of probes that are read here.
        let handlers = [Lifecycle::POST_START, Lifecycle::PRE_STOP].map(|handler| lifecycle.at(handler).cast());
        let own = probes.iter().map(|probe| container.at(*probe)).chain(handlers).flat_map(|probe| {
            let http = probe.at(Probe::HTTP_GET).at(HTTPGetAction::HOST).str();
            [http, probe.at(Probe::TCP_SOCKET).at(TCPSocketAction::HOST).str()]
        });
        let before = hosts.len();
        hosts.extend(own.filter(|host| !host.is_empty()));
        if hosts.len() > before {
            names.push(name(container));
        }
    }
    if names.is_empty() {
        return None;
    }
    let (names, hosts) = (sorted(names), sorted(hosts));
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(&hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

pub(super) fn privileged(subject: Subject<'_>) -> Option<Violation> {
    let bad = |c: &ContainerRef<'_>| security(*c).at(SecurityContext::PRIVILEGED).bool();
    let names: Vec<&str> = subject.containers().filter(bad).map(name).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount(subject: Subject<'_>) -> Option<Violation> {
    let mount = |c| security(c).at(SecurityContext::PROC_MOUNT).get_str();
    let set = subject.containers().filter_map(|c| Some((name(c), mount(c)?)));
    let found: Vec<(&str, &str)> = set.filter(|(_, mount)| *mount != "Default").collect();
    if found.is_empty() {
        return None;
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let mounts = sorted(found.iter().map(|(_, mount)| *mount));
    let detail = format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(&mounts));
    Violation::new("procMount", detail)
}

pub(super) fn proc_mount_1_35(subject: Subject<'_>) -> Option<Violation> {
    if subject.has_own_users() { None } else { proc_mount(subject) }
}

pub(super) fn se_linux(subject: Subject<'_>) -> Option<Violation> {
    se_linux_types(subject, &SE_LINUX_TYPES[..4])
}

pub(super) fn se_linux_1_31(subject: Subject<'_>) -> Option<Violation> {
    se_linux_types(subject, &SE_LINUX_TYPES)
}

pub(super) fn seccomp_annotations(subject: Subject<'_>) -> Option<Violation> {
    let allowed =
        |value: &str| ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/");
    let applies = |key: &str| {
        key == SECCOMP_ANNOTATION
            || key
                .strip_prefix(CONTAINER_SECCOMP_ANNOTATION)
                .is_some_and(|container| subject.containers().any(|c| name(c) == container))
    };
    let mut forbidden: Vec<String> = subject
        .annotations()
        .filter(|(key, value)| applies(key) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", binnacle_meta::go_quote(value)))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    forbidden.sort();
    let what = plural("annotation", "annotations", forbidden.len());
    Violation::new("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
}

pub(super) fn seccomp(subject: Subject<'_>) -> Option<Violation> {
    let of_pod = bad_seccomp(subject.security().at(PodSecurityContext::SECCOMP_PROFILE));
    let found: Vec<(&str, &str)> = subject
        .containers()
        .filter_map(|c| Some((name(c), bad_seccomp(security(c).at(SecurityContext::SECCOMP_PROFILE))?)))
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let setters_text = setters(of_pod.is_some(), &names)?;
    let kinds = sorted(of_pod.into_iter().chain(found.iter().map(|(_, kind)| *kind)));
    let detail = format!("{setters_text} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
    Violation::new("seccompProfile", detail)
}

pub(super) fn sysctls(subject: Subject<'_>) -> Option<Violation> {
    safe_sysctls(subject, 5)
}

pub(super) fn sysctls_1_27(subject: Subject<'_>) -> Option<Violation> {
    safe_sysctls(subject, 6)
}

pub(super) fn sysctls_1_29(subject: Subject<'_>) -> Option<Violation> {
    safe_sysctls(subject, 10)
}

pub(super) fn sysctls_1_32(subject: Subject<'_>) -> Option<Violation> {
    safe_sysctls(subject, 12)
}

pub(super) fn windows_host_process(subject: Subject<'_>) -> Option<Violation> {
    let is_host_process = |windows: FieldRef<WindowsSecurityContextOptions>| {
        windows.at(WindowsSecurityContextOptions::HOST_PROCESS).bool()
    };
    let bad = |c: &ContainerRef<'_>| is_host_process(security(*c).at(SecurityContext::WINDOWS_OPTIONS));
    let names: Vec<&str> = subject.containers().filter(bad).map(name).collect();
    let setters_text = setters(is_host_process(subject.security().at(PodSecurityContext::WINDOWS_OPTIONS)), &names)?;
    Violation::new(
        "hostProcess",
        format!("{setters_text} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

/// Returns the type of an AppArmor profile if it is not allowed.
fn bad_app_armor<'v>(profile: FieldRef<'_, 'v, AppArmorProfile>) -> Option<&'v str> {
    let kind = profile.set()?.at(AppArmorProfile::TYPE).str();
    Some(kind).filter(|kind| !["RuntimeDefault", "Localhost"].contains(kind))
}

/// Returns the type of a seccomp profile if it is not allowed.
pub(super) fn bad_seccomp<'v>(profile: FieldRef<'_, 'v, SeccompProfile>) -> Option<&'v str> {
    let kind = profile.set()?.at(SeccompProfile::TYPE).str();
    Some(kind).filter(|kind| !["Localhost", "RuntimeDefault"].contains(kind))
}

fn safe_sysctls(subject: Subject<'_>, known: usize) -> Option<Violation> {
    let sysctls = subject.security().at(PodSecurityContext::SYSCTLS).values();
    let named = sysctls.map(|sysctl| sysctl.at(Sysctl::NAME).str());
    let forbidden: Vec<&str> = named.filter(|sysctl| !SYSCTLS[..known].contains(sysctl)).collect();
    if forbidden.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", forbidden.join(", "))
}

fn se_linux_types(subject: Subject<'_>, types: &[&str]) -> Option<Violation> {
    type OptionsRef<'a> = FieldRef<'static, 'a, SELinuxOptions>;
    let is_bad = |kind: &&str| !types.contains(kind);
    let others = [SELinuxOptions::USER, SELinuxOptions::ROLE];
    let bad = |options: &OptionsRef<'_>| {
        is_bad(&options.at(SELinuxOptions::TYPE).str()) || others.iter().any(|field| !options.at(*field).is_empty())
    };
    let of_pod = subject.security().at(PodSecurityContext::SE_LINUX_OPTIONS).detached().set().filter(bad);
    let options = |c| security(c).at(SecurityContext::SE_LINUX_OPTIONS).detached().set().filter(bad);
    let found: Vec<(&str, OptionsRef<'_>)> =
        subject.containers().filter_map(|c| Some((name(c), options(c)?))).collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let setters_text = setters(of_pod.is_some(), &names)?;
    let all: Vec<OptionsRef<'_>> = of_pod.into_iter().chain(found.into_iter().map(|(_, options)| options)).collect();
    let mut what = Vec::new();
    let bad_types = sorted(all.iter().map(|options| options.at(SELinuxOptions::TYPE).str()).filter(is_bad));
    if !bad_types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", bad_types.len()), quoted(&bad_types)));
    }
    for field in others {
        if all.iter().any(|options| !options.at(field).is_empty()) {
            what.push(format!("{} may not be set", field.name()));
        }
    }
    let detail = format!("{setters_text} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Violation::new("seLinuxOptions", detail)
}
