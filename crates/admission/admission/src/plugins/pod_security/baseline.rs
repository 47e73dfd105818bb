//! The checks of the baseline standard, which prevents known privilege escalations.

use binnacle_schema::Value;

use super::subject::{Subject, Violation, containers, name, plural, quoted, security, setters, sorted};

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

/// The sysctls that affect nothing but the pod, in the order of the releases that allow them.
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
    let bad = |profile: Option<&'_ Value>| {
        let kind = profile.map(|profile| profile.str_at(&["type"]).to_owned());
        kind.filter(|kind| !["RuntimeDefault", "Localhost"].contains(&kind.as_str()))
    };
    let of_pod = bad(subject.spec(&["securityContext", "appArmorProfile"]));
    let of_containers: Vec<(&str, String)> = subject
        .containers()
        .filter_map(|c| bad(security(c, &["appArmorProfile"])).map(|kind| (name(c), kind)))
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
    let mut who: Vec<String> = Vec::new();
    who.extend(of_pod.is_some().then(|| "pod".to_owned()));
    who.extend((!names.is_empty()).then(|| containers(&names)));
    who.extend((!annotations.is_empty()).then(|| plural("annotation", "annotations", annotations.len()).to_owned()));
    if who.is_empty() {
        return None;
    }
    let kinds = of_pod.iter().chain(of_containers.iter().map(|(_, kind)| kind)).map(String::as_str);
    let mut values: Vec<&str> = sorted(kinds);
    values.extend(annotations.iter().map(String::as_str));
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values));
    Violation::new(reason, detail)
}

pub(super) fn capabilities(subject: Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut forbidden = Vec::new();
    for container in subject.containers() {
        let added = texts(security(container, &["capabilities", "add"]));
        let before = forbidden.len();
        forbidden.extend(added.filter(|capability| !CAPABILITIES.contains(capability)));
        if forbidden.len() > before {
            names.push(name(container));
        }
    }
    if names.is_empty() {
        return None;
    }
    let (who, what) = (containers(&names), quoted(&sorted(forbidden)));
    Violation::new(
        "non-default capabilities",
        format!("{who} must not include {what} in securityContext.capabilities.add"),
    )
}

pub(super) fn host_namespaces(subject: Subject<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|member| subject.is_true(&[member]))
        .map(|member| format!("{member}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    Violation::new("host namespaces", shared.join(", "))
}

pub(super) fn host_path_volumes(subject: Subject<'_>) -> Option<Violation> {
    let of_host = |volume: &&Value| volume.get("hostPath").is_some_and(|path| !path.is_null());
    let names: Vec<&str> = subject.list(&["volumes"]).iter().filter(of_host).map(name).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)))
}

pub(super) fn host_ports(subject: Subject<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut ports: Vec<String> = Vec::new();
    for container in subject.containers() {
        let own = container.list_at(&["ports"]).iter().filter_map(|port| port.int_at(&["hostPort"]));
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
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut names = Vec::new();
    let mut hosts = Vec::new();
    for container in subject.containers() {
        let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
        let own = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|how| handler.str_at(&[how, "host"])));
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
    let bad = |c: &&Value| security(c, &["privileged"]).and_then(Value::as_bool) == Some(true);
    let names: Vec<&str> = subject.containers().filter(bad).map(name).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount(subject: Subject<'_>) -> Option<Violation> {
    let bad = |c| security(c, &["procMount"]).and_then(Value::as_str).filter(|mount| *mount != "Default");
    let found: Vec<(&str, &str)> = subject.containers().filter_map(|c| bad(c).map(|mount| (name(c), mount))).collect();
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
    let about = |key: &str| {
        key == SECCOMP_ANNOTATION
            || key
                .strip_prefix(CONTAINER_SECCOMP_ANNOTATION)
                .is_some_and(|container| subject.containers().any(|c| name(c) == container))
    };
    let mut forbidden: Vec<String> = subject
        .annotations()
        .filter(|(key, value)| about(key) && !allowed(value))
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
    let of_pod = subject.spec(&["securityContext", "seccompProfile"]).and_then(bad_seccomp);
    let found: Vec<(&str, &str)> = subject
        .containers()
        .filter_map(|c| security(c, &["seccompProfile"]).and_then(bad_seccomp).map(|kind| (name(c), kind)))
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let who = setters(of_pod.is_some(), &names)?;
    let kinds = sorted(of_pod.into_iter().chain(found.iter().map(|(_, kind)| *kind)));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
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
    const PATH: [&str; 2] = ["windowsOptions", "hostProcess"];
    let bad = |c: &&Value| security(c, &PATH).and_then(Value::as_bool) == Some(true);
    let names: Vec<&str> = subject.containers().filter(bad).map(name).collect();
    let who = setters(subject.is_true(&["securityContext", "windowsOptions", "hostProcess"]), &names)?;
    Violation::new("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

/// Returns the type of a seccomp profile that does not confine.
pub(super) fn bad_seccomp(profile: &Value) -> Option<&str> {
    Some(profile.str_at(&["type"])).filter(|kind| !["Localhost", "RuntimeDefault"].contains(kind))
}

pub(super) fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_list).unwrap_or(&[]).iter().filter_map(Value::as_str)
}

fn safe_sysctls(subject: Subject<'_>, known: usize) -> Option<Violation> {
    let named = subject.list(&["securityContext", "sysctls"]).iter().map(name);
    let forbidden: Vec<&str> = named.filter(|sysctl| !SYSCTLS[..known].contains(sysctl)).collect();
    if forbidden.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", forbidden.join(", "))
}

fn se_linux_types(subject: Subject<'_>, types: &[&str]) -> Option<Violation> {
    let bad_type = |options: &'_ Value| !types.contains(&options.str_at(&["type"]));
    let sets = |options: &Value, member: &str| !options.str_at(&[member]).is_empty();
    let bad = |options: &&Value| bad_type(options) || sets(options, "user") || sets(options, "role");
    let of_pod = subject.spec(&["securityContext", "seLinuxOptions"]).filter(bad);
    let found: Vec<(&str, &Value)> = subject
        .containers()
        .filter_map(|c| security(c, &["seLinuxOptions"]).filter(bad).map(|options| (name(c), options)))
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let who = setters(of_pod.is_some(), &names)?;
    let all: Vec<&Value> = of_pod.into_iter().chain(found.into_iter().map(|(_, options)| options)).collect();
    let mut what = Vec::new();
    let bad_types = sorted(all.iter().filter(|options| bad_type(options)).map(|options| options.str_at(&["type"])));
    if !bad_types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", bad_types.len()), quoted(&bad_types)));
    }
    for member in ["user", "role"] {
        if all.iter().any(|options| sets(options, member)) {
            what.push(format!("{member} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Violation::new("seLinuxOptions", detail)
}
