//! Ports of their own for logical clusters (`spec.port`): for clients that cannot use a path, such as kubelets, and pods
//! that use the service `kubernetes`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::{Body, ConnectionInfo, ShutdownTrigger};
use binnacle_server::Chain;
use binnacle_transport::{
    BoundPort, ConnectionLimits, ListenError, Listener, ListenerHandle, PortSharing, Service, Tls,
};
use http::{Request, Response};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use super::router::{RoutedBody, look_back, serve_in};
use super::slot::Slot;

/// What the listener of the host shares with those of clusters.
pub(crate) struct ListenerOptions {
    pub(crate) address: IpAddr,
    pub(crate) sharing: PortSharing,
    pub(crate) tls: Arc<Tls>,
    /// The limits of a cluster's own port.
    pub(crate) limits: ConnectionLimits,
    pub(crate) max_streams: Option<u32>,
    /// The runtime that accepts connections.
    pub(crate) front: Option<Handle>,
    pub(crate) host: Arc<Chain>,
    /// True if clusters serve their earlier revisions.
    pub(crate) serves_past: bool,
}

/// The open ports, by the name of the cluster.
pub(super) struct Ports {
    /// `None` until the host listens.
    options: watch::Sender<Option<Arc<ListenerOptions>>>,
    open: Mutex<HashMap<Text, OpenPort>>,
}

struct OpenPort {
    port: u16,
    listener: ListenerHandle,
    close: ShutdownTrigger,
}

/// Passes all requests of a port to one cluster.
struct PortService {
    slot: Arc<Slot>,
    host: Arc<Chain>,
    serves_past: bool,
}

// === impl ListenerOptions ===

impl ListenerOptions {
    /// Returns the listener of a port.
    pub(crate) fn listener(&self, port: BoundPort, limits: ConnectionLimits) -> Listener {
        let mut listener = port.with_tls(self.tls.clone()).limits(limits);
        if let Some(front) = &self.front {
            listener = listener.front(front.clone());
        }
        match self.max_streams {
            Some(max_streams) => listener.max_streams(max_streams),
            None => listener,
        }
    }
}

// === impl Ports ===

impl Ports {
    pub(super) fn new() -> Self {
        Self { options: watch::Sender::new(None), open: Mutex::default() }
    }

    /// Sets the options of all ports, once.
    pub(super) fn configure(&self, options: ListenerOptions) {
        self.options.send_replace(Some(Arc::new(options)));
    }

    /// Opens or closes the port of a cluster, until it has this one.
    pub(super) async fn set(&self, slot: &Arc<Slot>, port: Option<u16>) -> Result<(), ListenError> {
        let mut open = self.open.lock().await;
        if open.get(slot.name()).map(|open| open.port) == port {
            return Ok(());
        }
        if let Some(other) = open.remove(slot.name()) {
            other.close().await;
        }
        if let Some(port) = port {
            let mut options = self.options.subscribe();
            // The sender is in `self`.
            let options = options.wait_for(Option::is_some).await.ok().and_then(|options| options.clone());
            if let Some(options) = options {
                open.insert(slot.name().clone(), OpenPort::open(&options, slot, port).await?);
            }
        }
        Ok(())
    }

    /// Closes the port of a cluster, if it has one.
    pub(super) async fn close(&self, name: &str) {
        let open = self.open.lock().await.remove(name);
        if let Some(open) = open {
            open.close().await;
        }
    }

    pub(super) async fn close_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        for open in open.into_values() {
            open.close().await;
        }
    }
}

// === impl OpenPort ===

impl OpenPort {
    async fn open(options: &ListenerOptions, slot: &Arc<Slot>, port: u16) -> Result<Self, ListenError> {
        let bound = BoundPort::bind(SocketAddr::new(options.address, port), options.sharing).await?;
        let listener = options.listener(bound, options.limits);
        let (close, closed) = ShutdownTrigger::new();
        let (host_stops, trigger) = (options.host.shutdown().fired(), close.clone());
        tokio::spawn({
            let closed = closed.clone();
            async move {
                tokio::select! {
                    () = host_stops => trigger.fire(),
                    () = closed.fired() => {}
                }
            }
        });
        let service = PortService { slot: slot.clone(), host: options.host.clone(), serves_past: options.serves_past };
        let listener = listener.start(Arc::new(service), closed, options.host.connection_metrics().clone());
        Ok(Self { port, listener, close })
    }

    async fn close(mut self) {
        self.close.fire();
        self.listener.wait_until_closed().await;
        self.listener.close_all();
    }
}

impl Service for PortService {
    type Body = RoutedBody;

    async fn serve(&self, mut request: Request<Body>, connection: Arc<ConnectionInfo>) -> Response<RoutedBody> {
        if self.serves_past {
            look_back(&mut request);
        }
        serve_in(self.slot.clone(), &self.host, request, connection).await
    }

    fn is_probe(&self, _: &str) -> bool {
        // The cluster may have to be started first, which is work for the workers.
        false
    }

    fn is_shutting_down(&self) -> bool {
        self.host.is_shutting_down()
    }
}
