//! Validation of containers: the common rules, and those for regular, init and ephemeral ones.

use binnacle_validation::repeated;
use std::collections::{BTreeSet, HashSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, ports};

use super::requirements::{self, Holder};
use super::volumes::Volumes;
use super::{PodValidationOptions, env, handlers, mounts, pull_policy, security};
use crate::tree_names::member;

const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
const NOT_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// The parts of a pod that the validation of its containers needs.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) options: &'a PodValidationOptions<'a>,
    pub(super) grace: Option<i64>,
    pub(super) host_users: bool,
}

/// Returns all containers of a pod with their paths, in the order in which kube-apiserver visits them.
pub(crate) fn all<'a>(spec: &'a Value, path: &FieldPath) -> impl Iterator<Item = (&'a Value, FieldPath)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| {
        let at = path.child(list);
        spec.list_at(&[list]).iter().enumerate().map(move |(i, container)| (container, at.index(i)))
    })
}

pub(super) fn regular(pod: &Pod<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let list = pod.spec.list_at(&["containers"]);
    let path = path.child("containers");
    if list.is_empty() {
        return errors.push(FieldError::required(&path, ""));
    }
    let mut names = HashSet::new();
    for (i, container) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        common(container, pod, &at, errors);
        let name = container.str_at(&["name"]);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        handlers::lifecycle(container, pod.grace, pod.os(), &at, errors);
        handlers::probes(container, pod.grace, &at, errors);
        if pod.options.allows_restart_rules() {
            restart_policy(container, pod.options, &at, errors);
        } else if member(container, "restartPolicy").is_some() {
            errors.push(FieldError::forbidden(&at.child("restartPolicy"), "may not be set for non-init containers"));
        }
    }
    host_ports(list, &path, errors);
}

pub(super) fn init(pod: &Pod<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let regular = pod.spec.list_at(&["containers"]).iter();
    let mut names: HashSet<&str> = regular.map(|container| container.str_at(&["name"])).collect();
    let path = path.child("initContainers");
    for (i, container) in errors.while_room(pod.spec.list_at(&["initContainers"]).iter().enumerate()) {
        let at = path.index(i);
        common(container, pod, &at, errors);
        init_restart_policy(container, pod.options, &at, errors);
        let name = container.str_at(&["name"]);
        if names.contains(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_ports(std::slice::from_ref(container), &path, errors);
        if is_sidecar(container) {
            handlers::lifecycle(container, pod.grace, pod.os(), &at, errors);
            handlers::probes(container, pod.grace, &at, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if member(container, field).is_some() {
                errors.push(FieldError::forbidden(&at.child(field), NOT_INIT));
            }
        }
        if pod.options.restarting_init_containers {
            continue;
        }
        for (j, policy) in errors.while_room(container.list_at(&["resizePolicy"]).iter().enumerate()) {
            if policy.str_at(&["restartPolicy"]) == "RestartContainer" {
                let at = at.child("resizePolicy").index(j).child("restartPolicy");
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(FieldError::invalid(&at, "RestartContainer", why));
            }
        }
    }
}

pub(super) fn ephemeral(pod: &Pod<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    /// The fields that ephemeral containers may not have.
    const FORBIDDEN: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    let others = ["containers", "initContainers"].iter().flat_map(|list| pod.spec.list_at(&[list]));
    let others: HashSet<&str> = others.map(|container| container.str_at(&["name"])).collect();
    let mut names = others.clone();
    let path = path.child("ephemeralContainers");
    for (i, container) in errors.while_room(pod.spec.list_at(&["ephemeralContainers"]).iter().enumerate()) {
        let at = path.index(i);
        common(container, pod, &at, errors);
        image_space(container, &at, errors);
        let name = container.str_at(&["name"]);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        let target = container.str_at(&["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&at.child("targetContainerName"), target));
        }
        let given = FORBIDDEN.iter().filter(|field| is_given(container, field));
        errors.extend(given.map(|field| FieldError::forbidden(&at.child(field), NOT_EPHEMERAL)));
        for (j, mount) in errors.while_room(container.list_at(&["volumeMounts"]).iter().enumerate()) {
            for field in ["subPath", "subPathExpr"] {
                if !mount.str_at(&[field]).is_empty() {
                    let at = at.child("volumeMounts").index(j).child(field);
                    errors.push(FieldError::forbidden(&at, NOT_EPHEMERAL));
                }
            }
        }
    }
}

/// Returns true for an init container that keeps running beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

/// Returns true if the exit of some container can restart all of them.
pub(crate) fn restarts_all_containers(spec: &Value) -> bool {
    ["initContainers", "containers"]
        .iter()
        .flat_map(|list| spec.list_at(&[list]))
        .flat_map(|container| container.list_at(&["restartPolicyRules"]))
        .any(|rule| rule.str_at(&["action"]) == "RestartAllContainers")
}

/// Rejects space around the image of a container in a pod; templates may have it.
pub(crate) fn image_space(container: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let image = container.str_at(&["image"]);
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, why));
    }
}

impl<'a> Pod<'a> {
    fn os(&self) -> Option<&'a str> {
        member(self.spec, "os").map(|os| os.str_at(&["name"]))
    }
}

fn common(container: &Value, pod: &Pod<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    match container.str_at(&["name"]) {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => checks::label(&path.child("name"), name, errors),
    }
    checks::required(&path.child("image"), container.str_at(&["image"]), errors);
    let policy = container.str_at(&["terminationMessagePolicy"]);
    let policies = ["File", "FallbackToLogsOnError"];
    checks::required_one_of(&path.child("terminationMessagePolicy"), policy, &policies, errors);
    container_ports(container.list_at(&["ports"]), &path.child("ports"), errors);
    env::variables(container.list_at(&["env"]), &path.child("env"), pod.options, errors);
    env::sources(container.list_at(&["envFrom"]), &path.child("envFrom"), errors);
    mounts::mounts(container, &pod.volumes, &path.child("volumeMounts"), errors);
    mounts::devices(container, &pod.volumes, &path.child("volumeDevices"), errors);
    pull_policy(&path.child("imagePullPolicy"), container.str_at(&["imagePullPolicy"]), errors);
    if let Some(resources) = container.get("resources") {
        let at = path.child("resources");
        requirements::requirements(resources, Holder::Container, &pod.claims, &at, pod.options, errors);
    }
    let pod_policy = pod.spec.str_at(&["restartPolicy"]);
    resize_policy(container.list_at(&["resizePolicy"]), pod_policy, &path.child("resizePolicy"), errors);
    security::of_container(pod.options.features, container, pod.host_users, path, errors);
}

fn container_ports(list: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for (i, port) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            let messages = ports::name(name);
            if !messages.is_empty() {
                checks::invalid_for(&at.child("name"), name, messages, errors);
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
        }
        match port.int_at(&["containerPort"]).unwrap_or(0) {
            0 => errors.push(FieldError::required(&at.child("containerPort"), "")),
            number => ports::number(&at.child("containerPort"), number, errors),
        }
        match port.int_at(&["hostPort"]).unwrap_or(0) {
            0 => {}
            number => ports::number(&at.child("hostPort"), number, errors),
        }
        checks::required_one_of(&at.child("protocol"), port.str_at(&["protocol"]), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Rejects host ports that two containers have.
fn host_ports(containers: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut taken = HashSet::new();
    for (i, container) in errors.while_room(containers.iter().enumerate()) {
        for (j, port) in errors.while_room(container.list_at(&["ports"]).iter().enumerate()) {
            let number = port.int_at(&["hostPort"]).unwrap_or(0);
            let (protocol, address) = (port.str_at(&["protocol"]), port.str_at(&["hostIP"]));
            if number != 0 && !taken.insert((protocol, address, number)) {
                let at = path.index(i).child("ports").index(j).child("hostPort");
                errors.push(FieldError::duplicate(&at, format!("{protocol}/{address}/{number}").as_str()));
            }
        }
    }
}

fn resize_policy(list: &[Value], pod_policy: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let repeated = repeated(list, |item| item.str_at(&["resourceName"]));
    for (i, item) in errors.while_room(list.iter().enumerate()) {
        let (resource, policy) = (item.str_at(&["resourceName"]), item.str_at(&["restartPolicy"]));
        if repeated[i] {
            errors.push(FieldError::duplicate(&path.index(i), resource));
        }
        checks::required_one_of(path, resource, &["cpu", "memory"], errors);
        checks::required_one_of(path, policy, &["NotRequired", "RestartContainer"], errors);
        if pod_policy == "Never" && policy != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, policy, why));
        }
    }
}

/// Validates the restart policy of an init container, which may be a sidecar without the gate for restart rules; rules
/// of sidecars need another gate.
fn init_restart_policy(
    container: &Value,
    options: &PodValidationOptions<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let has_rules = !container.list_at(&["restartPolicyRules"]).is_empty();
    match container.get("restartPolicy").and_then(Value::as_str) {
        None if has_rules => {
            let why = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(&path.child("restartPolicy"), why));
        }
        None => {}
        Some("Always") if !options.allows_restart_rules() => {}
        Some(policy) if !options.allows_restart_rules() => {
            errors.push(FieldError::not_supported(&path.child("restartPolicy"), policy, &["Always"]));
        }
        Some("Always") if !options.allows_restart_of_all() && !has_rules => {}
        Some("Always") if !options.allows_restart_of_all() => {
            let why = "restartPolicyRules are not allowed for init containers with restart policy Always";
            errors.push(FieldError::forbidden(&path.child("restartPolicyRules"), why));
        }
        Some(_) => restart_policy(container, options, path, errors),
    }
}

/// Validates the restart policy of a container and its rules for exit codes.
fn restart_policy(container: &Value, options: &PodValidationOptions<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let rules = container.list_at(&["restartPolicyRules"]);
    let at = path.child("restartPolicy");
    match container.get("restartPolicy").and_then(Value::as_str) {
        Some(policy) => checks::one_of(&at, policy, &RESTART_POLICIES, errors),
        None if rules.is_empty() => return,
        None => errors.push(FieldError::required(&at, "must specify restartPolicy when restart rules are used")),
    }
    let path = path.child("restartPolicyRules");
    let actions = if options.allows_restart_of_all() { &RESTART_ACTIONS[..] } else { &RESTART_ACTIONS[..1] };
    if rules.len() > RESTART_RULES_MAX {
        errors.push(FieldError::too_many(&path, rules.len(), RESTART_RULES_MAX));
    }
    for (i, rule) in errors.while_room(rules.iter().enumerate()) {
        let at = path.index(i);
        checks::one_of(&at.child("action"), rule.str_at(&["action"]), actions, errors);
        let at = at.child("exitCodes");
        let Some(codes) = member(rule, "exitCodes") else {
            errors.push(FieldError::required(&at, "must be specified"));
            continue;
        };
        checks::one_of(&at.child("operator"), codes.str_at(&["operator"]), &["In", "NotIn"], errors);
        let count = codes.list_at(&["values"]).len();
        if count > EXIT_CODES_MAX {
            errors.push(FieldError::too_many(&at.child("values"), count, EXIT_CODES_MAX));
        }
    }
}

/// Returns true if a field has a value other than its zero value.
fn is_given(container: &Value, field: &str) -> bool {
    match container.get(field) {
        None | Some(Value::Null) => false,
        // A list that is empty is not nil, and so not Go's zero value.
        Some(Value::List(_)) => true,
        // Resources are not a pointer in Go: they are present even if empty.
        Some(Value::Object(members)) if field == "resources" => !members.is_empty(),
        Some(_) => true,
    }
}
