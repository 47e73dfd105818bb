//! A network that can be cut between the members of a cluster, and between members and clients.
//!
//! An answer can be lost as well: the connection breaks after a call was carried out and before its answer is received.
//!
//! Bytes to and from a side that is cut off are held back, while all connections stay and new ones seem to be made, as
//! with an unplugged cable. Held bytes arrive when the cut is over, as with TCP.

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Relays in front of each member, one for its peers and one for its clients.
pub(crate) struct Relays {
    state: watch::Sender<State>,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct State {
    /// Members that are cut off from other members.
    from_peers: BTreeSet<usize>,
    /// Members that are cut off from clients.
    from_clients: BTreeSet<usize>,
    /// Members by the names that they send in calls.
    names: HashMap<String, usize>,
    /// The next call of a client with these bytes loses its answer.
    unanswered: Option<Vec<u8>>,
}

/// The time for a call that loses its answer to be carried out.
const CARRIED_OUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Peers,
    Clients,
}

/// The header with which etcd's members name themselves in HTTP calls to each other.
const CALLER: &[u8] = b"X-Server-From: ";
/// More than the length of the header.
const OVERLAP: usize = 64;

impl Relays {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { state: watch::Sender::default(), runtime: Some(runtime) }
    }

    /// Starts a relay to a member's port; returns its own port.
    pub(crate) fn relay(&self, member: usize, side: Side, to: u16) -> u16 {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (relays, state) = (self.state.clone(), self.state.subscribe());
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
        self.runtime.as_ref().unwrap().spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (caller, mute) = (Arc::default(), Arc::default());
                let wire = Wire { member, side, caller, mute, relays: relays.clone(), state: state.clone() };
                tokio::spawn(connection(stream, to, wire));
            }
        });
        port
    }

    /// Sets the name of a member in its calls.
    pub(crate) fn name(&self, name: &str, member: usize) {
        self.state.send_modify(|state| {
            state.names.insert(name.to_owned(), member);
        });
    }

    pub(crate) fn cut(&self, member: usize, side: Side) {
        self.state.send_modify(|state| {
            match side {
                Side::Peers => state.from_peers.insert(member),
                Side::Clients => state.from_clients.insert(member),
            };
        });
    }

    /// Makes the next call of a client with these bytes lose its answer: it is carried out, and then its connection
    /// breaks.
    pub(crate) fn lose_answer(&self, call: &[u8]) {
        self.state.send_modify(|state| state.unanswered = Some(call.to_vec()));
    }

    /// Returns true once the answer was lost.
    pub(crate) fn has_lost_answer(&self) -> bool {
        self.state.borrow().unanswered.is_none()
    }

    pub(crate) fn heal(&self) {
        self.state.send_modify(|state| {
            state.from_peers.clear();
            state.from_clients.clear();
        });
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The target of a connection, and the calling member once it is known.
#[derive(Clone)]
struct Wire {
    member: usize,
    side: Side,
    caller: Arc<OnceLock<usize>>,
    /// True once no answers are forwarded.
    mute: Arc<AtomicBool>,
    relays: watch::Sender<State>,
    state: watch::Receiver<State>,
}

impl Wire {
    /// Waits while the wire is cut.
    async fn whole(&mut self) -> Option<()> {
        let (member, side, caller) = (self.member, self.side, self.caller.get().copied());
        let whole = |state: &State| match side {
            Side::Clients => !state.from_clients.contains(&member),
            Side::Peers => ![Some(member), caller].iter().flatten().any(|end| state.from_peers.contains(end)),
        };
        self.state.wait_for(whole).await.ok().map(drop)
    }

    /// Breaks the connection some time after a call that is to lose its answer.
    fn silence(&self, call: &[u8]) {
        if self.side == Side::Peers || self.state.borrow().unanswered.is_none() {
            return;
        }
        self.relays.send_if_modified(|state| {
            let hit = state.unanswered.as_ref().is_some_and(|bytes| memchr::memmem::find(call, bytes).is_some());
            if hit {
                state.unanswered = None;
                self.mute.store(true, Ordering::Release);
            }
            hit
        });
    }

    /// Finds the name of the caller in its bytes.
    fn listen(&self, said: &[u8]) {
        let at = (self.caller.get().is_none()).then(|| memchr::memmem::find(said, CALLER)).flatten();
        let Some(at) = at.map(|at| at + CALLER.len()) else { return };
        let name = said[at..].split(|byte| *byte == b'\r').next().unwrap_or_default();
        if let Some(member) =
            std::str::from_utf8(name).ok().and_then(|name| self.state.borrow().names.get(name).copied())
        {
            let _ = self.caller.set(member);
        }
    }
}

async fn connection(inbound: TcpStream, to: SocketAddr, mut wire: Wire) {
    if wire.whole().await.is_none() {
        return;
    }
    // Without a server the caller's connection is closed.
    let Ok(outbound) = TcpStream::connect(to).await else { return };
    let _ = (inbound.set_nodelay(true), outbound.set_nodelay(true));
    let (calls, answers) = (inbound.into_split(), outbound.into_split());
    tokio::select! {
        () = carry(calls.0, answers.1, wire.clone(), true) => {}
        () = carry(answers.0, calls.1, wire, false) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut wire: Wire, calls: bool) {
    let mut buffer = vec![0; 64 << 10];
    // A header may begin at the end of the previous bytes.
    let mut said = Vec::new();
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if calls && wire.side == Side::Peers && wire.caller.get().is_none() {
            said.drain(..said.len().saturating_sub(OVERLAP));
            said.extend_from_slice(&buffer[..read]);
            wire.listen(&said);
        }
        if calls {
            // Before the call is forwarded, so that no answer is faster.
            wire.silence(&buffer[..read]);
        } else if wire.mute.load(Ordering::Acquire) {
            tokio::time::sleep(CARRIED_OUT).await;
            return;
        }
        // While the wire is cut, the end of a connection is held back, too.
        if wire.whole().await.is_none() || read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
