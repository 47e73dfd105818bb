//! Client connections: the listener, TLS, HTTP/1 and HTTP/2, connection limits, and graceful shutdown. A [`Service`]
//! handles the requests; nothing here depends on their callers or contents.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use binnacle_metrics::Registry;
//! use binnacle_request::Shutdown;
//! use binnacle_transport::{BoundPort, ConnectionMetrics, PortSharing, Service, Tls};
//!
//! async fn listen(tls: Tls, service: Arc<impl Service>, shutdown: Shutdown) -> Result<(), Box<dyn std::error::Error>> {
//!     let metrics = ConnectionMetrics::register(&Registry::new())?;
//!     let port = BoundPort::bind(([127, 0, 0, 1], 6443).into(), PortSharing::Refused).await?;
//!     let mut handle = port.with_tls(tls).start(service, shutdown, metrics);
//!     handle.wait_until_closed().await;
//!     handle.close_all();
//!     Ok(())
//! }
//! ```

mod coalesce;
mod connections;
mod cork;
mod date;
mod frame_meter;
mod handlers;
mod http1;
mod http2;
mod linger;
mod listener;
mod meter;
mod metrics;
mod relocate;
mod response;
mod service;
mod sniff;
mod throttle;
mod tls;

pub use connections::ConnectionLimits;
pub use listener::{BoundPort, DEFAULT_MAX_STREAMS, ListenError, Listener, ListenerHandle, PortSharing};
pub use metrics::ConnectionMetrics;
pub use response::{CloseConnection, SendBy, error_text, plain_text};
pub use service::{ResponseBody, Service};
pub use throttle::Throttle;
pub use tls::{
    AuthorityNames, CertificateFiles, Certificates, DefaultCertificate, NamedCertificate, Tls, TlsError, TlsFiles,
    TlsSettings,
};
