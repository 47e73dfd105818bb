//! Node ports. The allocated ports are in one object of the store, in kube-apiserver's format, so that several servers,
//! including kube-apiservers, cannot allocate one port twice.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::RangeAllocation;
use binnacle_meta::Status;
use binnacle_registry::{Catalog, RequestStore, Snapshot, store_failure};
use binnacle_schema::{Message, Value, proto, value};
use binnacle_store::{Expect, KeyValue, Op, Revision, Txn, TxnResponse};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::bitmap::Bitmap;
use crate::config::PortRange;
use crate::metrics::{AllocatorMetrics, Scope};
use crate::spec::Spec;
use binnacle_controllers::Objects;

/// The key, below the root of all keys.
const KEY: &str = "ranges/servicenodeports";
const KIND: &str = "RangeAllocation";
const DEPTH: usize = 32;

/// The first ports of the range are reserved for static allocation while others are free (KEP-3668): `min(max(16, size
/// / 32), 128)` ports of a range of more than 16.
const STATIC_MIN: usize = 16;
const STATIC_MAX: usize = 128;
const STATIC_SHARE: usize = 32;

/// The first port that a dry run chooses; later ones count up from there.
const DRY_RUN_PORT: i64 = 32769;

/// The allocator of node ports for all services.
pub(crate) struct NodePorts {
    resources: Catalog,
    range: PortRange,
    metrics: Option<AllocatorMetrics>,
    /// The state last read or written; `None` before that.
    state: Mutex<Option<State>>,
}

#[derive(Clone)]
struct State {
    taken: Bitmap,
    /// The revision of the stored object; `None` if there is none yet.
    revision: Option<Revision>,
}

/// The ports during the allocation for one service. They are written only if the whole allocation succeeds.
pub(crate) struct Session<'a> {
    range: PortRange,
    taken: &'a mut Bitmap,
    dry_run: bool,
    /// The next port that a dry run chooses.
    next_dry_run_port: i64,
    /// The scopes of the allocated ports.
    allocated_scopes: Vec<Scope>,
    /// The scope of the port that could not be allocated.
    refused: Option<Scope>,
}

/// The error of a port that could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortError {
    Full,
    Allocated,
    NotInRange(PortRange),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Allocated => f.write_str("provided port is already allocated"),
            Self::NotInRange(range) => {
                write!(f, "provided port is not in the valid range. The range of valid ports is {range}")
            }
        }
    }
}

impl Session<'_> {
    /// Allocates the requested port.
    pub(crate) fn allocate(&mut self, port: i64) -> Result<(), PortError> {
        let taken = self.try_allocate(port);
        self.record(Scope::Static, taken.is_ok());
        taken
    }

    fn record(&mut self, scope: Scope, is_allocated: bool) {
        match is_allocated {
            true => self.allocated_scopes.push(scope),
            false => self.refused = Some(scope),
        }
    }

    fn try_allocate(&mut self, port: i64) -> Result<(), PortError> {
        let Some(offset) = offset(self.range, port) else {
            // As in kube-apiserver, a dry run does not check the range.
            return if self.dry_run { Ok(()) } else { Err(PortError::NotInRange(self.range)) };
        };
        if self.taken.has(offset) {
            return Err(PortError::Allocated);
        }
        self.taken.set(offset, true);
        self.next_dry_run_port = self.next_dry_run_port.max(port + 1);
        Ok(())
    }

    /// Allocates any port.
    pub(crate) fn allocate_next(&mut self) -> Result<i64, PortError> {
        if self.dry_run {
            self.next_dry_run_port += 1;
            return Ok(self.next_dry_run_port - 1);
        }
        let size = self.taken.len();
        let reserved = if size <= STATIC_MIN { 0 } else { (size / STATIC_SHARE).clamp(STATIC_MIN, STATIC_MAX) };
        let offset = free(self.taken, reserved, size).or_else(|| free(self.taken, 0, reserved));
        self.record(Scope::Dynamic, offset.is_some());
        let offset = offset.ok_or(PortError::Full)?;
        self.taken.set(offset, true);
        Ok(i64::from(self.range.first) + offset as i64)
    }
}

impl NodePorts {
    pub(crate) fn new(resources: Catalog, range: PortRange) -> Self {
        Self { resources, range, metrics: None, state: Mutex::new(None) }
    }

    /// Sets the metrics of allocations.
    #[must_use]
    pub(crate) fn counted(self, metrics: Option<AllocatorMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Allocates the ports of `plan`, and calls it again if another server has written first.
    pub(crate) async fn allocate<T>(
        &self,
        dry_run: bool,
        mut plan: impl FnMut(&mut Session<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut state = self.state.lock().await;
        let mut is_fresh = false;
        loop {
            let current = match state.take() {
                Some(current) => current,
                None => {
                    is_fresh = true;
                    self.load().await?
                }
            };
            let mut taken = current.taken.clone();
            let mut session = Session {
                range: self.range,
                taken: &mut taken,
                dry_run,
                next_dry_run_port: DRY_RUN_PORT,
                allocated_scopes: Vec::new(),
                refused: None,
            };
            let outcome = plan(&mut session);
            let (allocated_scopes, refused) = (session.allocated_scopes, session.refused);
            match outcome {
                // Another server may have released the missing port.
                Err(_) if !is_fresh => continue,
                Err(status) => {
                    if let (Some(metrics), Some(scope), false) = (&self.metrics, refused, dry_run) {
                        metrics.port_refused(scope);
                    }
                    *state = Some(current);
                    return Err(status);
                }
                Ok(outcome) if dry_run => {
                    *state = Some(current);
                    return Ok(outcome);
                }
                Ok(outcome) => {
                    *state = self.write(&current, taken).await?;
                    if let Some(state) = &*state {
                        self.count(state, &allocated_scopes);
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Counts all allocated ports, and those just allocated by their scopes in `allocated_scopes`.
    fn count(&self, state: &State, allocated_scopes: &[Scope]) {
        if let Some(metrics) = &self.metrics {
            metrics.ports_allocated(allocated_scopes);
            metrics.ports(state.taken.taken().count(), state.taken.len());
        }
    }

    /// Releases ports. The repair loop handles a failure.
    pub(crate) async fn release(&self, ports: &[i64]) {
        if ports.is_empty() {
            return;
        }
        if let Err(status) = self.change(|range, taken| release_ports(range, taken, ports)).await {
            tracing::warn!(?ports, error = status.message(), "failed to release node ports, retrying");
        }
    }

    /// Marks the ports of services as allocated, and releases those of `leaked` that no service has. Returns the
    /// allocated ports that no service has.
    pub(crate) async fn repair(&self, leaked: &[i64]) -> Result<Vec<i64>, Status> {
        let mut state = self.state.lock().await;
        *state = None;
        loop {
            // The order matters: a port is allocated before its service is written.
            let current = self.load().await?;
            let used = self.used().await?;
            let mut taken = current.taken.clone();
            used.taken().for_each(|i| taken.set(i, true));
            let orphans: Vec<usize> = taken.taken().filter(|i| !used.has(*i)).collect();
            let port = |i: usize| i64::from(self.range.first) + i as i64;
            orphans.iter().filter(|i| leaked.contains(&port(**i))).for_each(|i| taken.set(*i, false));
            *state = self.write(&current, taken).await?;
            if state.is_some() {
                return Ok(orphans.into_iter().map(port).filter(|port| !leaked.contains(port)).collect());
            }
        }
    }

    async fn change(&self, mut change: impl FnMut(PortRange, &mut Bitmap)) -> Result<(), Status> {
        let mut state = self.state.lock().await;
        let mut is_fresh = false;
        loop {
            let current = match state.take() {
                Some(current) => current,
                None => {
                    is_fresh = true;
                    self.load().await?
                }
            };
            let mut taken = current.taken.clone();
            change(self.range, &mut taken);
            // Another server may have allocated a port that is free in the cached state.
            if taken == current.taken && !is_fresh {
                continue;
            }
            *state = self.write(&current, taken).await?;
            if let Some(state) = &*state {
                self.count(state, &[]);
                return Ok(());
            }
        }
    }

    /// Reads the allocated ports in the store, or those of the services if the store has none or another range.
    async fn load(&self) -> Result<State, Status> {
        let (store, key) = self.store_and_key()?;
        let (kv, _) = store.get(key, None).await.map_err(store_failure)?;
        let revision = kv.as_ref().map(|kv| kv.mod_revision);
        let stored = kv.and_then(|kv| self.decode(&kv));
        let taken = match stored {
            Some(taken) => taken,
            None => self.used().await?,
        };
        Ok(State { taken, revision })
    }

    /// Writes the ports if they were not changed since they were read; `None` otherwise.
    async fn write(&self, current: &State, taken: Bitmap) -> Result<Option<State>, Status> {
        if taken == current.taken && current.revision.is_some() {
            return Ok(Some(current.clone()));
        }
        let expect = current.revision.map_or(Expect::Absent, Expect::ModRevision);
        let op = Op::Put { value: self.encode(&taken)?, lease: None };
        let (store, key) = self.store_and_key()?;
        match store.txn(Txn { key, expect, op }).await.map_err(store_failure)? {
            TxnResponse::Done { revision, .. } => Ok(Some(State { taken, revision: Some(revision) })),
            TxnResponse::Unmet { .. } => Ok(None),
        }
    }

    /// Returns the ports of all services.
    async fn used(&self) -> Result<Bitmap, Status> {
        let services = Objects::new(&self.resources, "", "v1", "services")?.list("").await?;
        let mut used = Bitmap::new(self.range.size());
        for port in services.iter().flat_map(|service| ports_of(Spec::of(service))) {
            if let Some(offset) = offset(self.range, port) {
                used.set(offset, true);
            }
        }
        Ok(used)
    }

    fn encode(&self, taken: &Bitmap) -> Result<Bytes, Status> {
        let snapshot = self.resources.snapshot();
        let message = message(&snapshot)?;
        let object = value!({
            "metadata": {}, "range": (self.range.to_string()), "data": (STANDARD.encode(taken.to_bytes()))
        });
        Ok(Bytes::from(proto::wrap("v1", KIND, |raw| proto::encode(&object, message, raw))))
    }

    /// Decodes the object; `None` if its range differs or it is invalid.
    fn decode(&self, kv: &KeyValue) -> Option<Bitmap> {
        let envelope = proto::unwrap(&kv.value).ok()?;
        let snapshot = self.resources.snapshot();
        let object: Value = proto::decode(envelope.raw, message(&snapshot).ok()?, DEPTH).ok()?;
        let object = FieldRef::<RangeAllocation>::root(&object);
        let range = object.at(RangeAllocation::RANGE).str();
        if range != self.range.to_string() {
            tracing::warn!(stored = range, now = %self.range, "the range of node ports has changed");
            return None;
        }
        let bytes = STANDARD.decode(object.at(RangeAllocation::DATA).str()).ok()?;
        Some(Bitmap::from_bytes(&bytes, self.range.size()))
    }

    /// Returns the store and key of the object.
    fn store_and_key(&self) -> Result<(RequestStore, Bytes), Status> {
        let services = self.resources.require("", "v1", "services")?;
        let collection = &services.collection;
        Ok((collection.store.clone(), Bytes::from(format!("{}{KEY}", collection.root))))
    }
}

/// Returns all node ports of a service, including its health check port.
pub(crate) fn ports_of(spec: Spec<'_>) -> Vec<i64> {
    let mut ports = spec.node_ports();
    if spec.needs_health_check_port() && spec.health_check_port() != 0 {
        ports.push(spec.health_check_port());
    }
    ports
}

fn release_ports(range: PortRange, taken: &mut Bitmap, ports: &[i64]) {
    for offset in ports.iter().filter_map(|port| offset(range, *port)) {
        taken.set(offset, false);
    }
}

/// Returns the first free index in `from..to`, starting at a random one.
fn free(taken: &Bitmap, from: usize, to: usize) -> Option<usize> {
    let count = to.saturating_sub(from);
    let start = rand::random_range(0..count.max(1));
    (0..count).map(|i| from + (start + i) % count).find(|i| !taken.has(*i))
}

fn offset(range: PortRange, port: i64) -> Option<usize> {
    range.contains(port).then(|| (port - i64::from(range.first)) as usize)
}

fn message(snapshot: &Snapshot) -> Result<&Message, Status> {
    snapshot.kinds().kind("", "v1", KIND).ok_or_else(|| Status::internal("the kind RangeAllocation is not known"))
}
