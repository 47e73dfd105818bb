//! Signals that stop the program: the first one begins a graceful stop, a later one ends the process.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time within which further signals are the first one again: `timeout` signals its child and then the whole group,
/// and so do terminals and supervisors.
const SAME: Duration = Duration::from_millis(100);
/// The time for removing temporary files once the process should end.
const LAST: Duration = Duration::from_secs(2);

/// Starts listening. The first future resolves with the first signal, the second one with a later signal; the process
/// ends soon after that in any case.
pub(crate) fn stop() -> std::io::Result<(impl Future<Output = ()> + Send, impl Future<Output = ()> + Send)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping");
        let first = Instant::now();
        // Nobody may wait for it, if the start failed.
        let _ = stop.send(());
        while first.elapsed() < SAME {
            either(&mut terminate, &mut interrupt).await;
        }
        let _ = end.send(());
        tokio::time::sleep(LAST).await;
        std::process::exit(1);
    });
    Ok((async { drop(stopped.await) }, async { drop(ended.await) }))
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
