//! `binnacle`, the program for administrators.

use std::process::ExitCode;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Threads often free memory that others allocated, with which the memory of the system's allocator keeps growing.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The number of threads for blocking disk access.
const BLOCKING_THREADS: usize = 4;

fn main() -> ExitCode {
    let matches = binnacle::cli::command().get_matches();
    let levels = Targets::new().with_default(LevelFilter::WARN);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // Fails only on a second call in the same process, and there is none.
    let _ = tracing_subscriber::registry().with(levels).with(layer).try_init();
    if let Err(error) = binnacle_crypto::check() {
        eprintln!("binnacle: {error}");
        return ExitCode::FAILURE;
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.max_blocking_threads(BLOCKING_THREADS).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("binnacle: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(binnacle::cli::run(&matches)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("binnacle: {error}");
            ExitCode::FAILURE
        }
    }
}
