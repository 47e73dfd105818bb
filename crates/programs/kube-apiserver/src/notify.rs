//! Notifications for systemd: ready, stopping, watchdog (`sd_notify`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The connection to systemd, if it expects notifications.
pub(crate) struct Notify {
    address: SocketAddr,
    socket: UnixDatagram,
    /// The watchdog timeout.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Returns the connection that the environment names.
    pub(crate) fn from_environment() -> Option<Self> {
        let path = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0).map(Duration::from_micros);
        match Self::new(&path, watchdog) {
            Ok(notify) => Some(notify),
            Err(error) => {
                tracing::warn!("failed to connect to NOTIFY_SOCKET {}: {error}", path.display());
                None
            }
        }
    }

    /// Connects to a path, or to an abstract name after `@`.
    fn new(path: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { address, socket, watchdog })
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1\n");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Sends watchdog notifications as long as the server makes progress, two per timeout.
    pub(crate) async fn keep_alive(&self, makes_progress: impl Fn() -> bool) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        loop {
            if makes_progress() {
                self.send("WATCHDOG=1\n");
            }
            tokio::time::sleep(watchdog / 2).await;
        }
    }

    fn send(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            tracing::warn!("failed to send {} to systemd: {error}", state.trim_end());
        }
    }
}
