//! Validation of probes, and of handlers that run at the start and end of a container.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names, ports};

use crate::tree_names::member;

const WINDOWS_SIGNALS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// All Linux signals with a name, sorted as messages list them.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Validates liveness, readiness and startup probes.
pub(super) fn probes(container: &Value, grace: Option<i64>, path: &FieldPath, errors: &mut FieldErrors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = member(container, name) else { continue };
        let at = path.child(name);
        handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, &at, errors);
        let number = |field: &str| probe.int_at(&[field]).unwrap_or(0);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            checks::not_negative(&at.child(field), Some(number(field)), errors);
        }
        let grace = probe.int_at(&["terminationGracePeriodSeconds"]);
        if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
            let at = at.child("terminationGracePeriodSeconds");
            errors.push(FieldError::invalid(&at, seconds, "must be greater than 0"));
        }
        if name == "readinessProbe" {
            if let Some(seconds) = grace {
                let at = at.child("terminationGracePeriodSeconds");
                errors.push(FieldError::invalid(&at, seconds, "must not be set for readinessProbes"));
            }
        } else if number("successThreshold") != 1 {
            errors.push(FieldError::invalid(&at.child("successThreshold"), number("successThreshold"), "must be 1"));
        }
    }
}

/// Validates `lifecycle`.
pub(super) fn lifecycle(
    container: &Value,
    grace: Option<i64>,
    os: Option<&str>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(lifecycle) = member(container, "lifecycle") else { return };
    let path = path.child("lifecycle");
    for name in ["postStart", "preStop"] {
        if let Some(hook) = member(lifecycle, name) {
            handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, &path.child(name), errors);
        }
    }
    let Some(signal) = lifecycle.get("stopSignal").and_then(Value::as_str) else { return };
    let at = path.child("stopSignal");
    match os {
        None => errors.push(FieldError::forbidden(&at, "may not be set for containers with empty `spec.os.name`")),
        Some("windows") => checks::one_of(&at, signal, &WINDOWS_SIGNALS, errors),
        Some("linux") => checks::one_of(&at, signal, &LINUX_SIGNALS, errors),
        Some(_) => {}
    }
}

/// Requires exactly one of the supported kinds of handler.
fn handler(holder: &Value, kinds: &[&str], grace: Option<i64>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut found = false;
    for kind in kinds {
        let Some(action) = member(holder, kind) else { continue };
        let at = path.child(kind);
        if found {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *kind {
            "exec" if action.list_at(&["command"]).is_empty() => {
                errors.push(FieldError::required(&at.child("command"), ""));
            }
            "httpGet" => http_get(action, &at, errors),
            "tcpSocket" => checks::port_number_or_name(&at.child("port"), action.get("port"), errors),
            "grpc" => ports::number(&at.child("port"), action.int_at(&["port"]).unwrap_or(0), errors),
            "sleep" => sleep(action, grace, &at, errors),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(action: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    checks::required(&path.child("path"), action.str_at(&["path"]), errors);
    checks::port_number_or_name(&path.child("port"), action.get("port"), errors);
    checks::one_of(&path.child("scheme"), action.str_at(&["scheme"]), &["HTTP", "HTTPS"], errors);
    for header in errors.while_room(action.list_at(&["httpHeaders"])) {
        let name = header.str_at(&["name"]);
        checks::invalid_for(&path.child("httpHeaders"), name, names::http_header_name(name), errors);
    }
}

fn sleep(action: &Value, grace: Option<i64>, path: &FieldPath, errors: &mut FieldErrors) {
    let seconds = action.int_at(&["seconds"]).unwrap_or(0);
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, seconds, why));
    }
}
