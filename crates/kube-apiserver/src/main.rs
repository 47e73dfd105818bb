//! The program: flags, then a server that runs until a signal.

mod descriptors;
mod flags;
mod heap;
mod logging;
mod notify;
mod signals;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use binnacle_apiserver::settings::{DiskFailure, Host};
use binnacle_apiserver::{Handle, Server, Settings};
use binnacle_server::{HeapProfile, KUBERNETES_VERSION};
use flags::{Command, Config};
use notify::Notify;

/// Trees of small values are made and dropped with every write: this takes a sixth of the processor time of a patch away
/// that the system's allocator needs, at the same memory per connection. Threads of its own give back what others freed
/// and do not come for again: a server that has become idle would keep it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The longest wait for the default objects of the cluster before the start is announced without them.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The exit status after the disk of the embedded store has failed: "input/output error" of sysexits.h.
const DISK_FAILED: i32 = 74;

fn main() -> ExitCode {
    let outcome = match flags::parse(std::env::args_os().skip(1)) {
        Ok(Command::Print(text)) => {
            say(&text);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Checked(errors)) => return report(&errors),
        Ok(Command::Serve(config)) => serve(*config),
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever is in the message.
            let _ = writeln!(std::io::stderr(), "Error: {}", error.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// The end of `--check-config`: one line for each error.
fn report(errors: &[String]) -> ExitCode {
    if errors.is_empty() {
        say("The configuration is valid.\n");
        return ExitCode::SUCCESS;
    }
    let mut lines = String::new();
    for error in errors {
        lines.push_str(&format!("Error: {}\n", error.replace('\n', " ")));
    }
    let _ = std::io::stderr().write_all(lines.as_bytes());
    ExitCode::FAILURE
}

fn serve(config: Config) -> Result<(), String> {
    let Config { mut settings, logs, shown, inert } = config;
    let logging = logging::start(&logs);
    for (flag, why) in &inert {
        tracing::warn!("--{flag} has no effect: {why}");
    }
    settings.host = Host {
        descriptors: Some(descriptors::raise()),
        on_disk_failure: DiskFailure::EndProcess(DISK_FAILED),
        flags: shown,
        debug_flags: vec![logging.level_flag()],
        heap_profile: Some(HeapProfile::new(heap::profile)),
    };
    // Two at least: one long computation must not keep others from being answered.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let result = runtime.block_on(run(settings));
    // Whatever still blocks a thread (a log that nobody reads) does not keep the process alive.
    runtime.shutdown_background();
    logging.flush();
    result
}

/// Serves until a signal. The greeting is printed once the default objects of the cluster are there: its reader can
/// rely on `/readyz`, and on the rights that everybody has.
async fn run(settings: Settings) -> Result<(), String> {
    // Before anything else, so that a signal during the start is not lost.
    let stop = signals::stop().map_err(|error| format!("cannot listen for signals: {error}"))?;
    tokio::pin!(stop);
    let server = Server::start(settings).await.map_err(|error| error.to_string())?;
    let notify = Notify::of_environment();
    let alive = async {
        match &notify {
            Some(notify) => notify.keep_alive().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = until_stopped(server, stop, notify.as_ref()) => {}
        () = alive => {}
    }
    Ok(())
}

/// The whole life of a server that was started, of which the supervisor is told.
async fn until_stopped(mut server: Handle, mut stop: impl Future<Output = ()> + Unpin, notify: Option<&Notify>) {
    let stopped = tokio::select! {
        () = &mut stop => true,
        ready = tokio::time::timeout(START_PATIENCE, server.ready()) => {
            if !matches!(ready, Ok(Err(_))) {
                say(&greeting(&server));
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

/// The lines of a start.
fn greeting(server: &Handle) -> String {
    format!(
        "Kubernetes {KUBERNETES_VERSION} API at {}\nData: {}\nTry: {} get namespaces\nControllers are not part of \
         it. To see deployments come true: {}\n",
        server.url(),
        server.place(),
        server.kubectl(),
        server.controllers()
    )
}

/// Standard output may be closed; that is no reason to fail.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
