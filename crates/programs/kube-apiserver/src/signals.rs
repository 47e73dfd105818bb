//! Signals that stop the program: the first one begins a graceful stop, a later one ends the process.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time within which a repeated signal counts as the same one: `timeout` signals its child and then the whole
/// group, and so do terminals and supervisors. On a busy machine, the second one may be late.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(1);
/// The time for the cleanup of temporary files before the process exits.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The signals that stop the program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    /// `None` if the program was started with this signal ignored, as by `nohup`.
    hangup: Option<Signal>,
}

/// Starts listening. The first future resolves with the first signal, the second one with a later signal; the process
/// ends soon after that in any case.
pub(crate) fn stop() -> std::io::Result<(impl Future<Output = ()> + Send, impl Future<Output = ()> + Send)> {
    let mut signals = Signals::listen()?;
    let (stop, stopped) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping");
        let first = Instant::now();
        // The receiver is dropped if the start has failed.
        let _ = stop.send(());
        while first.elapsed() < DUPLICATE_WINDOW {
            signals.next().await;
        }
        let _ = end.send(());
        tokio::time::sleep(EXIT_GRACE).await;
        std::process::exit(1);
    });
    Ok((async { drop(stopped.await) }, async { drop(ended.await) }))
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let kind = SignalKind::hangup();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if is_ignored(&status, kind.as_raw_value()) { None } else { Some(signal(kind)?) };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup,
        })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Returns true if the status of a process, as in `/proc/self/status`, has the signal among those that it ignores.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or_default() & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ignored_signals() {
        for (status, signal, want) in [
            ("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n", 1, false),
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n", 1, true),
            ("SigIgn:\t0000000000001001\n", 13, true),
            ("SigIgn:\tno number\n", 1, false),
            ("", 1, false),
        ] {
            assert_eq!(is_ignored(status, signal), want, "{status:?}");
        }
    }
}
