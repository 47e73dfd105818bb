//! Validation of probes, and of handlers that run at the start and end of a container.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Lifecycle, LifecycleHandler as Hook, Probe,
    SleepAction, TCPSocketAction,
};
use binnacle_meta::FieldErrors;
use binnacle_validation::{checks, names, ports};

use super::required;

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
pub(super) fn probes(container: FieldRef<Container>, errors: &mut FieldErrors) {
    for field in [Container::LIVENESS_PROBE, Container::READINESS_PROBE, Container::STARTUP_PROBE] {
        let probe = container.at(field);
        if !probe.is_set() {
            continue;
        }
        probe_handler(probe, errors);
        for field in [
            Probe::INITIAL_DELAY_SECONDS,
            Probe::TIMEOUT_SECONDS,
            Probe::PERIOD_SECONDS,
            Probe::SUCCESS_THRESHOLD,
            Probe::FAILURE_THRESHOLD,
        ] {
            let number = probe.at(field);
            checks::not_negative(&number, number.int(), errors);
        }
        let grace = probe.at(Probe::TERMINATION_GRACE_PERIOD_SECONDS);
        if grace.int().is_some_and(|seconds| seconds <= 0) {
            errors.push(grace.invalid("must be greater than 0"));
        }
        let threshold = probe.at(Probe::SUCCESS_THRESHOLD);
        if field.name() == Container::READINESS_PROBE.name() {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if threshold.int_or_zero() != 1 {
            errors.push(threshold.invalid_as(threshold.int_or_zero(), "must be 1"));
        }
    }
}

/// Validates `lifecycle`.
pub(super) fn lifecycle(
    container: FieldRef<Container>,
    grace: Option<i64>,
    os: Option<&str>,
    errors: &mut FieldErrors,
) {
    let lifecycle = container.at(Container::LIFECYCLE);
    for hook in [Lifecycle::POST_START, Lifecycle::PRE_STOP] {
        let hook = lifecycle.at(hook);
        if hook.is_set() {
            hook_handler(hook, grace, errors);
        }
    }
    let signal = lifecycle.at(Lifecycle::STOP_SIGNAL);
    let Some(given) = signal.get_str() else { return };
    match os {
        None => errors.push(signal.forbidden("may not be set for containers with empty `spec.os.name`")),
        Some("windows") => checks::one_of(&signal, given, &WINDOWS_SIGNALS, errors),
        Some("linux") => checks::one_of(&signal, given, &LINUX_SIGNALS, errors),
        Some(_) => {}
    }
}

// === Handlers: exactly one of each probe and hook ===

const MISSING: &str = "must specify a handler type";

fn probe_handler(probe: FieldRef<Probe>, errors: &mut FieldErrors) {
    let mut found = false;
    handler(probe.at(Probe::EXEC), &mut found, errors, exec);
    handler(probe.at(Probe::HTTP_GET), &mut found, errors, http_get);
    handler(probe.at(Probe::TCP_SOCKET), &mut found, errors, tcp_socket);
    handler(probe.at(Probe::GRPC), &mut found, errors, grpc);
    if !found {
        errors.push(probe.required(MISSING));
    }
}

fn hook_handler(hook: FieldRef<Hook>, grace: Option<i64>, errors: &mut FieldErrors) {
    let mut found = false;
    handler(hook.at(Hook::EXEC), &mut found, errors, exec);
    handler(hook.at(Hook::HTTP_GET), &mut found, errors, http_get);
    handler(hook.at(Hook::TCP_SOCKET), &mut found, errors, tcp_socket);
    handler(hook.at(Hook::SLEEP), &mut found, errors, |action, errors| sleep(action, grace, errors));
    if !found {
        errors.push(hook.required(MISSING));
    }
}

fn handler<M>(
    action: FieldRef<M>,
    found: &mut bool,
    errors: &mut FieldErrors,
    rules: impl FnOnce(FieldRef<M>, &mut FieldErrors),
) {
    if !action.is_set() {
        return;
    }
    if *found {
        errors.push(action.forbidden("may not specify more than 1 handler type"));
    } else {
        *found = true;
        rules(action, errors);
    }
}

fn exec(action: FieldRef<ExecAction>, errors: &mut FieldErrors) {
    let command = action.at(ExecAction::COMMAND);
    if command.is_empty() {
        errors.push(command.required(""));
    }
}

fn http_get(action: FieldRef<HTTPGetAction>, errors: &mut FieldErrors) {
    required(action, &[HTTPGetAction::PATH], errors);
    let port = action.at(HTTPGetAction::PORT);
    checks::port_number_or_name(&port, port.get(), errors);
    let scheme = action.at(HTTPGetAction::SCHEME);
    checks::one_of(&scheme, scheme.str(), &["HTTP", "HTTPS"], errors);
    let headers = action.at(HTTPGetAction::HTTP_HEADERS);
    for header in errors.while_room(headers.items()) {
        let name = header.at(HTTPHeader::NAME).str();
        checks::invalid_for(&headers, name, names::http_header_name(name), errors);
    }
}

fn tcp_socket(action: FieldRef<TCPSocketAction>, errors: &mut FieldErrors) {
    let port = action.at(TCPSocketAction::PORT);
    checks::port_number_or_name(&port, port.get(), errors);
}

fn grpc(action: FieldRef<GRPCAction>, errors: &mut FieldErrors) {
    let port = action.at(GRPCAction::PORT);
    ports::number(&port, port.int_or_zero(), errors);
}

fn sleep(action: FieldRef<SleepAction>, grace: Option<i64>, errors: &mut FieldErrors) {
    let seconds = action.at(SleepAction::SECONDS).int_or_zero();
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(action.invalid_as(seconds, why));
    }
}
