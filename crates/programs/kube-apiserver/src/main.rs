//! The program: parses flags, then runs a server until a signal.

mod descriptors;
mod flags;
mod heap;
mod logging;
mod notify;
mod signals;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use binnacle_apiserver::settings::{DiskFailure, Host, OnReading};
use binnacle_apiserver::{Handle, Server, Settings};
use binnacle_cli::progress::Progress;
use binnacle_server::{ConfigPage, HeapProfile, KUBERNETES_VERSION};
use binnacle_supervise::supervise;
use flags::{Command, Config, Failure};
use logging::{EarlyWarnings, Errors, Logging};
use notify::Notify;

/// Every write allocates and frees trees of small values: compared with the system's allocator, this one saves a sixth
/// of a patch's CPU time with the same memory per connection. Its background threads return freed memory to the system,
/// which an idle server would otherwise keep.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The maximum wait for the default objects of the cluster before the greeting.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum wait for the cleanup of a start that a signal interrupts.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The exit status after the disk of the embedded store has failed: "input/output error" of sysexits.h.
const DISK_FAILED: i32 = 74;

fn main() -> ExitCode {
    let (command, warnings) = EarlyWarnings::of(|| flags::parse(std::env::args_os().skip(1)));
    let outcome = match command {
        Ok(Command::Print(text)) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Checked(errors)) => return print_check(&errors),
        Ok(Command::Serve(config)) => serve(*config, &warnings),
        Err(Failure { error, logs: None }) => {
            // Always one line, even if the message has several.
            let _ = writeln!(std::io::stderr(), "Error: {}", error.to_string().replace('\n', " "));
            return ExitCode::FAILURE;
        }
        Err(Failure { error, logs: Some(logs) }) => {
            let logging = logging::start(&logs);
            warnings.log();
            // kube-apiserver logs a list of errors; here, reading ends with the first one.
            log_failure(&Errors(vec![error.to_string()]));
            logging.flush();
            return ExitCode::FAILURE;
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(()) => ExitCode::FAILURE,
    }
}

/// Logs the error that ends the program, like kube-apiserver.
fn log_failure(error: &(dyn std::error::Error + 'static)) {
    tracing::error!(err = error, "command failed");
}

/// Prints the errors of `--check-config`, one per line.
fn print_check(errors: &[String]) -> ExitCode {
    if errors.is_empty() {
        print("The configuration is valid.\n");
        return ExitCode::SUCCESS;
    }
    let mut lines = String::new();
    for error in errors {
        lines.push_str(&format!("Error: {}\n", error.replace('\n', " ")));
    }
    let _ = std::io::stderr().write_all(lines.as_bytes());
    ExitCode::FAILURE
}

fn serve(config: Config, warnings: &EarlyWarnings) -> Result<(), ()> {
    let logging = logging::start(&config.logs);
    warnings.log();
    let result =
        serve_logged(config, &logging).map_err(|error| log_failure(&*Box::<dyn std::error::Error>::from(error)));
    logging.flush();
    result
}

fn serve_logged(config: Config, logging: &Logging) -> Result<(), String> {
    let Config { mut settings, logs: _, shown, inert, file, stops_with_stdin } = config;
    for (flag, why) in &inert {
        tracing::warn!("--{flag} is ignored: {why}");
    }
    settings.host = Host {
        descriptors: Some(descriptors::raise()),
        on_disk_failure: DiskFailure::EndProcess(DISK_FAILED),
        flags: shown,
        debug_flags: vec![logging.level_flag()],
        heap_profile: Some(HeapProfile::new(heap::profile)),
        configz: file.clone().map(|file| ConfigPage::new(move || file.shown())),
        on_reading: Some(OnReading::new(
            Progress::with_lines(|line| tracing::info!("{line}")).report("reading the store"),
        )),
        ends_with_server: true,
    };
    // At least two: one long computation must not block all requests.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all();
    configure_scheduler(&mut builder);
    let runtime = builder.build().map_err(|error| format!("cannot start the runtime: {error}"))?;
    if let Some(file) = file {
        let set = logging.setter();
        let set = std::sync::Arc::new(set);
        runtime.spawn(supervise("flags of a file", move || {
            let set = set.clone();
            file.clone().watch(move |changes| set(changes.verbosity, changes.modules))
        }));
    }
    heap::shorten_decay();
    runtime.spawn(supervise("free memory", heap::purge_on_release));
    let result = runtime.block_on(run(settings, stops_with_stdin));
    match result {
        // A blocked thread (such as a log without a reader) does not keep the process alive.
        Ok(()) => runtime.shutdown_background(),
        // Gives remaining tasks the time to remove their temporary files.
        Err(_) => runtime.shutdown_timeout(TASK_TIMEOUT),
    }
    result
}

/// The time for tasks that still run when the server has failed.
const TASK_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of tasks that a worker polls before it checks its sockets and timers again. This is tokio's default: with
/// 16, other requests wait as long under load, and single operations cost as much or more.
const EVENT_INTERVAL: u32 = 61;

/// Sets how often workers check sockets and the queue of all workers. `BINNACLE_EVENT_INTERVAL` and
/// `BINNACLE_GLOBAL_QUEUE_INTERVAL` set other values, for measurements.
fn configure_scheduler(builder: &mut tokio::runtime::Builder) {
    let from_env = |name| std::env::var(name).ok().and_then(|text| text.parse().ok()).filter(|count| *count > 0);
    builder.event_interval(from_env("BINNACLE_EVENT_INTERVAL").unwrap_or(EVENT_INTERVAL));
    // Without a value, tokio adjusts it to the time that polls take.
    if let Some(count) = from_env("BINNACLE_GLOBAL_QUEUE_INTERVAL") {
        builder.global_queue_interval(count);
    }
}

/// Serves until a signal. The greeting is printed once the default objects of the cluster exist, so that its reader can
/// rely on `/readyz` and on the permissions of all users.
async fn run(settings: Settings, stops_with_stdin: bool) -> Result<(), String> {
    // Registered first, so that no signal during the start is lost.
    let (stop, ended) = signals::stop().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let stop = async {
        let input_ended = async {
            match stops_with_stdin {
                true => end_of_stdin().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => {}
            () = input_ended => tracing::info!("stopping: standard input has ended"),
        }
    };
    tokio::pin!(stop);
    // In a separate task, since a signal must end the process whatever the start is doing.
    let mut start = tokio::spawn(Server::start(settings));
    let started = tokio::select! {
        started = &mut start => started,
        () = &mut stop => {
            start.abort();
            // A start that is still reading the store is abandoned, which the store allows at any time.
            if let Ok(Ok(Ok(server))) = tokio::time::timeout(ABORT_TIMEOUT, start).await {
                server.stop().await;
            }
            return Ok(());
        }
    };
    let started = started.map_err(|error| format!("the start ended unexpectedly: {error}"))?;
    let server = started.map_err(|error| error.to_string())?;
    let (notify, progress) = (Notify::from_environment(), server.progress());
    let alive = async {
        match &notify {
            Some(notify) => notify.keep_alive(|| progress.is_made()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = until_stopped(server, stop, notify.as_ref()) => {}
        () = alive => {}
        () = ended => return Err("stopped by a second signal".to_owned()),
    }
    Ok(())
}

/// Waits until standard input ends. The thread that reads it does not keep the process alive.
async fn end_of_stdin() {
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = end.send(());
    });
    drop(ended.await);
}

/// Runs a started server to its end, and notifies the supervisor.
async fn until_stopped(mut server: Handle, mut stop: impl Future<Output = ()> + Unpin, notify: Option<&Notify>) {
    let stopped = tokio::select! {
        () = &mut stop => true,
        ready = tokio::time::timeout(READY_TIMEOUT, server.ready()) => {
            if ready.is_err() {
                tracing::warn!("the server is not ready yet, see /readyz?verbose");
            }
            if !matches!(ready, Ok(Err(_))) {
                print(&greeting(&server));
                notify.into_iter().for_each(Notify::ready);
            }
            false
        }
    };
    if !stopped {
        tokio::select! {
            () = stop => {}
            () = server.ended() => {}
        }
    }
    notify.into_iter().for_each(Notify::stopping);
    server.stop().await;
}

/// The name and version of this program, as opposed to the Kubernetes version.
const PRODUCT: &str = concat!("Binnacle ", env!("CARGO_PKG_VERSION"));

/// Returns the lines that are printed after the start.
fn greeting(server: &Handle) -> String {
    format!(
        "{PRODUCT} (Kubernetes API {KUBERNETES_VERSION}) at {}\nData: {}\nTry: {} get namespaces\nThis is the API server \
         only. To turn Deployments into Pods, run: {}\n",
        server.url(),
        server.place(),
        server.kubectl(),
        server.controllers()
    )
}

/// Prints a text. Errors are ignored: standard output may be closed.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
