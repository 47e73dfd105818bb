//! The CPU profile: a signal interrupts the running code a hundred times per second of CPU time, and its handler
//! records the stack.

use std::time::Duration;

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use crate::profiles::format::{Frame, Stacks};

/// The sampling rate of Go's profiles.
const HERTZ: i32 = 100;
const PERIOD_NANOS: i64 = 1_000_000_000 / HERTZ as i64;

/// Errors of profiling.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    #[error("cpu profiling already in use")]
    Busy,
    #[error("{0}")]
    Failed(String),
}

/// Takes samples for `duration`, or until the future is dropped.
pub async fn cpu(duration: Duration) -> Result<Vec<u8>, CpuError> {
    let guard = ProfilerGuardBuilder::default()
        .frequency(HERTZ)
        // Stacks in these libraries are not unwound, since they may hold locks that the unwinder needs.
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .map_err(|error| match error {
            pprof::Error::Running => CpuError::Busy,
            error => CpuError::Failed(error.to_string()),
        })?;
    tokio::time::sleep(duration).await;
    // Symbol resolution blocks for a while.
    let encoded = tokio::task::spawn_blocking(move || encode(&guard, duration)).await;
    encoded.map_err(|error| CpuError::Failed(error.to_string()))?
}

fn encode(guard: &ProfilerGuard<'_>, duration: Duration) -> Result<Vec<u8>, CpuError> {
    let report = guard.report().build().map_err(|error| CpuError::Failed(error.to_string()))?;
    let types = vec![("samples", "count"), ("cpu", "nanoseconds")];
    let mut stacks = Stacks::new(types, (("cpu", "nanoseconds"), PERIOD_NANOS)).during(duration);
    for (frames, count) in &report.data {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let symbols = frames.frames.iter().flatten();
        let stack = symbols.map(|symbol| Frame {
            function: symbol.name(),
            symbol: symbol.sys_name().into_owned(),
            file: symbol.filename().into_owned(),
            line: symbol.lineno(),
        });
        // The thread name distinguishes workers from the listener and the logger.
        let thread = Frame { function: format!("thread {}", frames.thread_name_or_id()), ..Frame::default() };
        stacks.add(stack.chain([thread]).collect(), vec![count, count.saturating_mul(PERIOD_NANOS)]);
    }
    Ok(stacks.encode())
}
