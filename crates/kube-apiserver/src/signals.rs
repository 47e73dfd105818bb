//! SIGTERM and SIGINT: the first shuts the server down, the second ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts listening; the future resolves with the first signal.
pub(crate) fn stop() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping");
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            std::process::exit(1);
        });
    })
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
