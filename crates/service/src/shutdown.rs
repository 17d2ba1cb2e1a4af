//! Stopping gracefully.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM, SIGINT or SIGHUP (a closed terminal).
///
/// # Errors
/// Returns an error if the process cannot listen for signals.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}

/// Returns at the next SIGTERM or SIGINT. SIGHUP is ignored: for a closed terminal both the kernel and the shell send SIGHUP.
///
/// # Errors
/// Returns an error if the process cannot listen for signals.
pub async fn once() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
