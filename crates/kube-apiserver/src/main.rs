//! The program: flags, then a server that runs until it is told to stop.

mod admin_socket;
mod assemble;
mod authentication;
mod authorities;
mod authorization;
mod bound_objects;
mod data_dir;
mod descriptors;
mod embedded_metrics;
mod encryption;
mod fairness;
mod flags;
mod health;
mod identity;
mod issuers;
mod kubeconfig;
mod logging;
mod notify;
mod openid;
mod pki;
mod reload;
mod renewal;
mod signals;
mod storage_metrics;
mod stores;
mod timed_store;
mod upkeep;

use std::io::Write;
use std::process::ExitCode;

use assemble::Outset;
use flags::{Command, Config};
use notify::Notify;

/// Trees of small values are made and dropped with every write: this takes a sixth of the processor time of a patch away
/// that the system's allocator needs, at the same memory per connection.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match flags::parse(std::env::args_os().skip(1)) {
        Ok(Command::Print(text)) => {
            say(&text);
            return ExitCode::SUCCESS;
        }
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

fn serve(config: Config) -> Result<(), String> {
    let logging = logging::start(&config.logs);
    config.generic.gates.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    binnacle_features::install(config.generic.gates.clone());
    binnacle_kinds::set_allow_privileged(config.misc.allow_privileged);
    // Two at least, so that one handshake does not hold up the next.
    let front = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("front")
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime of the listener: {error}"))?;
    let outset =
        Outset { front: front.handle().clone(), descriptors: descriptors::raise(), levels: logging.levels.clone() };
    // Two at least: one long computation must not keep others from being answered.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let result = runtime.block_on(async {
        // Before anything else, so that a signal during the start is not lost.
        let stop = signals::stop().map_err(|error| format!("cannot listen for signals: {error}"))?;
        let assembled = assemble::assemble(config, outset).await.map_err(|error| error.to_string())?;
        let notify = Notify::of_environment();
        let begun = |greeting: &str| {
            say(greeting);
            notify.iter().for_each(Notify::ready);
        };
        let told = async {
            stop.await;
            notify.iter().for_each(Notify::stopping);
        };
        let alive = async {
            match &notify {
                Some(notify) => notify.keep_alive().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = assembled.run(begun, told) => {}
            () = alive => {}
        }
        Ok(())
    });
    // Whatever still blocks a thread (a log that nobody reads) does not keep the process alive.
    runtime.shutdown_background();
    front.shutdown_background();
    logging.flush();
    result
}

/// Standard output may be closed; that is no reason to fail.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
