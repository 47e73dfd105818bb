//! The checks of the standards, and the minor versions from which each version of a check applies.

use binnacle_schema::Value;

use super::baseline as b;
use super::policy::{Level, LevelVersion};
use super::restricted as r;
use super::subject::{Subject, Violation};

type Rule = fn(Subject<'_>) -> Option<Violation>;

struct Check {
    id: &'static str,
    /// The rules and the minor versions from which they apply, in ascending order.
    versions: &'static [(u32, Rule)],
    /// The checks of the baseline standard that this check replaces.
    overrides: &'static [&'static str],
}

/// Sorted by id, the order in which violations are reported.
const BASELINE: &[Check] = &[
    check("appArmorProfile", &[(0, b::app_armor)]),
    check("capabilities_baseline", &[(0, b::capabilities)]),
    check("hostNamespaces", &[(0, b::host_namespaces)]),
    check("hostPathVolumes", &[(0, b::host_path_volumes)]),
    check("hostPorts", &[(0, b::host_ports)]),
    check("hostProbesAndHostLifecycle", &[(34, b::probe_hosts)]),
    check("privileged", &[(0, b::privileged)]),
    check("procMount", &[(0, b::proc_mount), (35, b::proc_mount_1_35)]),
    check("seLinuxOptions", &[(0, b::se_linux), (31, b::se_linux_1_31)]),
    check("seccompProfile_baseline", &[(0, b::seccomp_annotations), (19, b::seccomp)]),
    check("sysctls", &[(0, b::sysctls), (27, b::sysctls_1_27), (29, b::sysctls_1_29), (32, b::sysctls_1_32)]),
    check("windowsHostProcess", &[(0, b::windows_host_process)]),
];

const RESTRICTED: &[Check] = &[
    check("allowPrivilegeEscalation", &[(8, r::privilege_escalation), (25, r::privilege_escalation_1_25)]),
    check("capabilities_restricted", &[(22, r::capabilities), (25, r::capabilities_1_25)])
        .overrides(&["capabilities_baseline"]),
    check("procMount_restricted", &[(35, b::proc_mount)]).overrides(&["procMount"]),
    check("restrictedVolumes", &[(0, r::volumes)]).overrides(&["hostPathVolumes"]),
    check("runAsNonRoot", &[(0, r::run_as_non_root), (35, r::run_as_non_root_1_35)]),
    check("runAsUser", &[(23, r::run_as_user), (35, r::run_as_user_1_35)]),
    check("seccompProfile_restricted", &[(19, r::seccomp), (25, r::seccomp_1_25)])
        .overrides(&["seccompProfile_baseline"]),
];

/// All violations of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

/// A pod and its cached violations, so that it is checked against each standard only once.
pub(super) struct Evaluations<'a> {
    subject: Subject<'a>,
    newest: u32,
    found: Vec<(LevelVersion, Violations)>,
}

impl<'a> Evaluations<'a> {
    pub(super) fn of(pod: &'a Value, newest: u32) -> Self {
        Self { subject: Subject::of(pod), newest, found: Vec::new() }
    }

    pub(super) fn against(&mut self, standard: LevelVersion) -> &Violations {
        let known = self.found.iter().position(|(known, _)| *known == standard);
        let at = known.unwrap_or_else(|| {
            self.found.push((standard, evaluate(standard, &self.subject, self.newest)));
            self.found.len() - 1
        });
        &self.found[at].1
    }
}

/// Checks a pod against a standard. Versions after `newest` count as `newest`.
pub(super) fn evaluate(standard: LevelVersion, subject: &Subject<'_>, newest: u32) -> Violations {
    let minor = standard.version.unwrap_or(newest).min(newest);
    let restricted: Vec<(&Check, Rule)> = match standard.level {
        Level::Privileged => return Violations::default(),
        Level::Baseline => Vec::new(),
        Level::Restricted => RESTRICTED.iter().filter_map(|check| Some((check, check.rule(minor)?))).collect(),
    };
    let overridden = |id: &str| restricted.iter().any(|(check, _)| check.overrides.contains(&id));
    let baseline = BASELINE.iter().filter(|check| !overridden(check.id)).filter_map(|check| check.rule(minor));
    let rules = baseline.chain(restricted.iter().map(|(_, rule)| *rule));
    Violations(rules.filter_map(|rule| rule(*subject)).collect())
}

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons of the violations without their details.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn details(&self) -> String {
        let each = self.0.iter().map(
            |Violation { reason, detail }| {
                if detail.is_empty() { reason.clone() } else { format!("{reason} ({detail})") }
            },
        );
        each.collect::<Vec<_>>().join(", ")
    }
}

const fn check(id: &'static str, versions: &'static [(u32, Rule)]) -> Check {
    Check { id, versions, overrides: &[] }
}

impl Check {
    const fn overrides(self, overrides: &'static [&'static str]) -> Self {
        Self { overrides, ..self }
    }

    /// Returns the rule that applies in a minor version.
    fn rule(&self, minor: u32) -> Option<Rule> {
        self.versions.iter().rev().find(|(since, _)| *since <= minor).map(|(_, rule)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    fn found(level: Level, minor: Option<u32>, pod: &Value) -> String {
        evaluate(LevelVersion { level, version: minor }, &Subject::of(pod), 36).details()
    }

    fn pod(spec: Value, container: Value) -> Value {
        let mut c = value!({"name": "c"});
        for (member, value) in container.as_object().cloned().unwrap_or_default() {
            c.make_object().insert(member, value);
        }
        let mut spec = spec;
        spec.make_object().insert("containers", vec![c]);
        value!({"metadata": {}, "spec": spec})
    }

    fn context(context: Value) -> Value {
        value!({"securityContext": context})
    }

    #[test]
    fn ids_are_in_order() {
        assert!(BASELINE.is_sorted_by_key(|check| check.id));
        assert!(RESTRICTED.is_sorted_by_key(|check| check.id));
    }

    #[test]
    fn reports_violations_of_baseline() {
        for (pod, want) in [
            (pod(value!({}), value!({})), ""),
            (
                pod(
                    value!({"hostNetwork": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                    value!({
                        "ports": [{"hostPort": 1i64}],
                        "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}}
                    }),
                ),
                "non-default capabilities (container \"c\" must not include \"NET_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true), hostPath volumes (volume \"v\"), hostPort (container \"c\" uses hostPort 1), privileged (container \"c\" must not set securityContext.privileged=true)",
            ),
            (
                pod(
                    value!({}),
                    context(value!({"procMount": "Unmasked", "seLinuxOptions": {"type": "x", "user": "u"}})),
                ),
                "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\"), seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may not be set)",
            ),
            (pod(value!({"hostUsers": false}), context(value!({"procMount": "Unmasked"}))), ""),
            (
                pod(
                    value!({"securityContext": {
                        "seccompProfile": {"type": "Unconfined"}, "sysctls": [{"name": "kernel.msgmax"}],
                        "windowsOptions": {"hostProcess": true}, "appArmorProfile": {"type": "Unconfined"}
                    }}),
                    value!({"livenessProbe": {"httpGet": {"host": "h"}}}),
                ),
                "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\"), probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\"), seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\"), forbidden sysctls (kernel.msgmax), hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
            ),
        ] {
            assert_eq!(found(Level::Baseline, None, &pod), want);
            assert_eq!(found(Level::Privileged, None, &pod), "");
        }
    }

    #[test]
    fn reports_violations_of_restricted() {
        let good = context(value!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}));
        let of_pod = value!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}});
        let all = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
        for (minor, pod, want) in [
            (None, pod(value!({}), value!({})), all),
            (None, pod(of_pod.clone(), good.clone()), ""),
            (
                Some(20),
                pod(value!({"securityContext": {"runAsNonRoot": true}}), value!({})),
                "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
            ),
            (
                None,
                pod(
                    value!({
                        "securityContext": {"runAsNonRoot": true, "runAsUser": 0i64, "seccompProfile": {"type": "Localhost"}},
                        "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}]
                    }),
                    good,
                ),
                "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\"), runAsUser=0 (pod must not set runAsUser=0)",
            ),
            (None, pod(value!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}}), value!({})), ""),
        ] {
            assert_eq!(found(Level::Restricted, minor, &pod), want);
        }
    }
}
