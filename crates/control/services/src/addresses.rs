//! Cluster IPs. An address is allocated by creating the IPAddress object with its name: the store lets only one server
//! succeed (KEP-1880).

use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{Condition, ObjectMeta};
use binnacle_fields::networking::v1::{
    IPAddress, IPAddressSpec, ParentReference as Parent, ServiceCIDR, ServiceCIDRSpec, ServiceCIDRStatus,
};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Catalog, Context, DeleteOptions, Match};
use binnacle_schema::{Object, Value, value};
use binnacle_validation::ip::parse_cidr;

use crate::metrics::{AllocatorMetrics, Scope};
use crate::range::AddressRange;
use crate::spec::Family;
use binnacle_controllers::Objects;

const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub(crate) const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "ipallocator.k8s.io";

/// The allocator of addresses for all services.
#[derive(Clone)]
pub(crate) struct Addresses {
    resources: Catalog,
    metrics: Option<AllocatorMetrics>,
}

/// The service that gets an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// The error of an address that could not be allocated.
#[derive(Debug)]
pub(crate) enum AddressError {
    Full,
    Allocated,
    /// No ready service CIDR has the address.
    NotInAnyRange,
    /// The error of a dry run for such an address, which names one of the ranges.
    NotInRange(IpAddr, String),
    Failed(Status),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Allocated => f.write_str("provided IP is already allocated"),
            Self::NotInAnyRange => f.write_str("the provided network does not match the current range"),
            Self::NotInRange(address, range) => {
                write!(f, "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")
            }
            Self::Failed(status) => f.write_str(status.message()),
        }
    }
}

impl Addresses {
    pub(crate) fn new(resources: Catalog) -> Self {
        Self { resources, metrics: None }
    }

    /// Sets the metrics of allocations.
    #[must_use]
    pub(crate) fn counted(self, metrics: Option<AllocatorMetrics>) -> Self {
        if let Some(metrics) = &metrics {
            metrics.watch_resources(&self.resources);
        }
        Self { metrics, ..self }
    }

    /// Allocates the requested address.
    pub(crate) async fn allocate(&self, address: IpAddr, owner: Owner<'_>) -> Result<(), AddressError> {
        let ranges = self.ranges(Family::of(address)).await?;
        let Some(range) = ranges.iter().find(|range| range.contains(address)) else {
            return Err(AddressError::NotInAnyRange);
        };
        self.create_counted(range, address, owner, Scope::Static, Instant::now()).await
    }

    /// Allocates any address of a family.
    pub(crate) async fn allocate_next(&self, family: Family, owner: Owner<'_>) -> Result<IpAddr, AddressError> {
        let objects = self.objects()?;
        let known = objects.resource();
        known
            .collection
            .cache
            .ready(soon())
            .await
            .map_err(|_| internal_error("the cache of addresses is not ready"))?;
        for range in self.ranges(family).await? {
            let started = Instant::now();
            for address in range.candidates() {
                // The cache may lack an object that the store already has. Then creating the object fails.
                if known.collection.cache.get(&address.to_string()).is_some() {
                    continue;
                }
                match self.create_counted(&range, address, owner, Scope::Dynamic, started).await {
                    Err(AddressError::Allocated) => {}
                    Ok(()) => return Ok(address),
                    Err(error) => return Err(error),
                }
            }
            self.count_refusal(&range, Scope::Dynamic);
        }
        Err(AddressError::Full)
    }

    /// Returns the result of [`Addresses::allocate`] for a dry run, which allocates nothing. kube-apiserver checks one range,
    /// any of them; here a dry run is refused only if the write would be.
    pub(crate) async fn dry_run(&self, address: IpAddr) -> Result<(), AddressError> {
        let ranges = self.ranges(Family::of(address)).await?;
        if ranges.iter().any(|range| range.contains(address)) {
            return Ok(());
        }
        Err(match ranges.first() {
            Some(range) => AddressError::NotInRange(address, range.text()),
            None => AddressError::NotInAnyRange,
        })
    }

    /// Returns the address that a dry run shows in place of an allocated one.
    pub(crate) async fn dry_run_next(&self, family: Family) -> Result<IpAddr, AddressError> {
        self.ranges(family).await?.first().map(AddressRange::network).ok_or(AddressError::Full)
    }

    /// Creates the object that allocates an address of a range, and counts it. `started` is the start of the search.
    async fn create_counted(
        &self,
        range: &AddressRange,
        address: IpAddr,
        owner: Owner<'_>,
        scope: Scope,
        started: Instant,
    ) -> Result<(), AddressError> {
        let created = self.create_address(address, owner).await;
        match (&created, &self.metrics) {
            (_, None) => {}
            (Err(_), Some(_)) => self.count_refusal(range, scope),
            (Ok(()), Some(metrics)) => {
                metrics.address_allocated(range, scope, started.elapsed());
            }
        }
        created
    }

    fn count_refusal(&self, range: &AddressRange, scope: Scope) {
        if let Some(metrics) = &self.metrics {
            metrics.address_refused(range, scope);
        }
    }

    /// Releases an address, unless another service owns it. The repair loop handles a failure.
    pub(crate) async fn release(&self, address: IpAddr, owner: Owner<'_>) {
        if let Err(status) = self.try_release(address, owner).await {
            tracing::warn!(%address, error = status.message(), "failed to release cluster IP, retrying");
        }
    }

    pub(crate) async fn try_release(&self, address: IpAddr, owner: Owner<'_>) -> Result<(), Status> {
        let objects = self.objects_or_status()?;
        let name = address.to_string();
        let Some(object) = objects.get("", &name).await? else { return Ok(()) };
        if !is_parent(&object, owner) {
            return Ok(());
        }
        let uid = Some(binnacle_fields::metadata(&object).at(ObjectMeta::UID).str().into());
        let options = DeleteOptions { uid, ..DeleteOptions::default() };
        match objects.resource().delete(&Context::internal(""), &name, &options).await {
            Err(status) if status.is(StatusReason::NotFound) || status.is(StatusReason::Conflict) => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }

    /// Creates the object that allocates an address.
    pub(crate) async fn create_address(&self, address: IpAddr, owner: Owner<'_>) -> Result<(), AddressError> {
        let labels = Object::from_iter([(FAMILY_LABEL, Family::of(address).as_str()), (MANAGED_BY_LABEL, MANAGER)]);
        let object = value!({
            "metadata": {"name": (address.to_string()), "labels": labels},
            "spec": {
                "parentRef": {"resource": "services", "namespace": (owner.namespace), "name": (owner.name)},
            },
        });
        match self.objects()?.create("", object).await {
            Ok(_) => Ok(()),
            Err(status) if status.is(StatusReason::AlreadyExists) => Err(AddressError::Allocated),
            Err(status) => Err(AddressError::Failed(status)),
        }
    }

    /// Returns the ranges of a family from which addresses may be allocated now.
    async fn ranges(&self, family: Family) -> Result<Vec<AddressRange>, AddressError> {
        let cidrs =
            Objects::new(&self.resources, "networking.k8s.io", "v1", "servicecidrs").map_err(AddressError::Failed)?;
        let mut ranges = usable(&cidrs.list_as("", Match::Any).await.map_err(AddressError::Failed)?, family);
        if ranges.is_empty() {
            // The first CIDR may have been created a moment ago.
            ranges = usable(&cidrs.list("").await.map_err(AddressError::Failed)?, family);
        }
        Ok(ranges)
    }

    fn objects(&self) -> Result<Objects, AddressError> {
        self.objects_or_status().map_err(AddressError::Failed)
    }

    fn objects_or_status(&self) -> Result<Objects, Status> {
        Objects::new(&self.resources, "networking.k8s.io", "v1", "ipaddresses")
    }
}

/// Returns true if an IPAddress object belongs to this service.
pub(crate) fn is_parent(object: &Value, owner: Owner<'_>) -> bool {
    let parent = parent(object);
    parent.at(Parent::GROUP).is_empty()
        && parent.at(Parent::RESOURCE).str() == "services"
        && parent.at(Parent::NAMESPACE).str() == owner.namespace
        && parent.at(Parent::NAME).str() == owner.name
}

/// Returns the `parentRef` of the IPAddress objects of a service.
pub(crate) fn parent(object: &Value) -> FieldRef<'static, '_, Parent> {
    FieldRef::<IPAddress>::root(object).at(IPAddress::SPEC).at(IPAddressSpec::PARENT_REF).detached()
}

/// Returns the ranges of ready service CIDRs that are not being deleted; one without the condition counts as ready.
fn usable(cidrs: &[Value], family: Family) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    for cidr in cidrs.iter().map(FieldRef::<ServiceCIDR>::root).filter(|cidr| is_ready(*cidr)) {
        let texts = cidr.at(ServiceCIDR::SPEC).at(ServiceCIDRSpec::CIDRS).strs();
        for range in texts.filter_map(parse_cidr).map(AddressRange::new) {
            if range.family() == family && !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    ranges
}

fn is_ready(cidr: FieldRef<ServiceCIDR>) -> bool {
    let deleted = cidr.at(ServiceCIDR::METADATA).at(ObjectMeta::DELETION_TIMESTAMP).is_set();
    !deleted && readiness(cidr).is_none_or(|status| status == "True")
}

/// Returns the status of the condition `Ready`.
pub(crate) fn readiness<'v>(cidr: FieldRef<'_, 'v, ServiceCIDR>) -> Option<&'v str> {
    let mut conditions = cidr.at(ServiceCIDR::STATUS).at(ServiceCIDRStatus::CONDITIONS).values();
    let ready = conditions.find(|condition| condition.at(Condition::TYPE).str() == "Ready")?;
    Some(ready.at(Condition::STATUS).str())
}

fn internal_error(why: &str) -> AddressError {
    AddressError::Failed(Status::internal(why))
}

fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + std::time::Duration::from_secs(3)
}
