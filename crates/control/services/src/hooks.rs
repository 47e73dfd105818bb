//! Allocation for services that are created or changed: cluster IPs, address families, node ports.
//!
//! No transaction covers a service and its allocations. Therefore allocation precedes the write of the service, and
//! release follows it, so that a failure in between can only leave unused allocations, which the repair loop releases.

use std::net::IpAddr;
use std::sync::Arc;

use binnacle_fields::core::v1::{Service, ServiceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, StatusReason, go_quote};
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Catalog, Context, DeleteOptions};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_validation::ip::parse_ip;
use binnacle_validation::metadata::shown;

use crate::addresses::{AddressError, Addresses, Owner};
use crate::config::ServiceConfig;
use crate::families::{Families, invalid, is_unchanged_dual_stack};
use crate::node_ports::{NodePorts, ports_of};
use crate::ports;
use crate::spec::{Family, Spec, spec_mut};
use binnacle_controllers::Objects;

/// Returns the hooks of services. The resources may be added to the catalog later.
pub fn service_hooks(resources: Catalog, config: &ServiceConfig) -> Arc<ServiceHooks> {
    let families = Families::new(config.cidrs.iter().map(Family::of_cidr), config.sloppy_addresses);
    Arc::new(ServiceHooks {
        families,
        addresses: Addresses::new(resources.clone()).counted(config.metrics.clone()),
        node_ports: NodePorts::new(resources.clone(), config.node_ports).counted(config.metrics.clone()),
        resources,
    })
}

/// Hooks that allocate the addresses and ports of services, and release them.
pub struct ServiceHooks {
    resources: Catalog,
    families: Families,
    addresses: Addresses,
    node_ports: NodePorts,
}

impl Hooks for ServiceHooks {
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            self.families.complete(object, None)?;
            let allocated = self.allocate_addresses(context, object, 0).await?;
            if !ports::needs_ports(object, None) {
                return Ok(());
            }
            let service: &Value = object;
            match self.node_ports.allocate(context.dry_run, |session| ports::plan_create(service, session)).await {
                Ok(plan) => plan.apply(object),
                Err(status) => {
                    self.release_addresses(context, object, &allocated).await;
                    return Err(status);
                }
            }
            Ok(())
        })
    }

    fn begin_update<'a>(
        &'a self,
        context: &'a Context,
        object: &'a mut Value,
        old: &'a Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            self.families.complete(object, Some(old))?;
            let allocated = match address_change(object, old) {
                AddressChange::Allocate(from) => self.allocate_addresses(context, object, from).await?,
                AddressChange::None | AddressChange::Release(_) => Vec::new(),
            };
            if !ports::needs_ports(object, Some(old)) {
                return Ok(());
            }
            let service: &Value = object;
            match self.node_ports.allocate(context.dry_run, |session| ports::plan_update(service, old, session)).await {
                Ok(plan) => plan.apply(object),
                Err(status) => {
                    self.release_addresses(context, object, &allocated).await;
                    return Err(status);
                }
            }
            Ok(())
        })
    }

    fn abort<'a>(&'a self, context: &'a Context, object: &'a Value, old: Option<&'a Value>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if context.dry_run {
                return;
            }
            let addresses = Spec::of(object).addresses();
            let allocated = match old {
                None => addresses,
                Some(old) => match address_change(object, old) {
                    AddressChange::Allocate(from) => addresses.into_iter().skip(from).collect(),
                    AddressChange::None | AddressChange::Release(_) => Vec::new(),
                },
            };
            self.release_addresses(context, object, &allocated).await;
            self.node_ports.release(&ports::allocated(object, old)).await;
        })
    }

    fn after_update<'a>(&'a self, context: &'a Context, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let AddressChange::Release(addresses) = address_change(object, old) {
                self.release_addresses(context, object, &addresses).await;
            }
            self.node_ports.release(&ports::released(object, old)).await;
        })
    }

    fn after_delete<'a>(&'a self, context: &'a Context, object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.delete_endpoints(owner(context, object)).await;
            self.release_addresses(context, object, &Spec::of(object).addresses()).await;
            self.node_ports.release(&ports_of(Spec::of(object))).await;
        })
    }
}

impl ServiceHooks {
    /// Allocates addresses for the service's families from index `from` on: the requested ones, or any.
    async fn allocate_addresses(
        &self,
        context: &Context,
        service: &mut Value,
        from: usize,
    ) -> Result<Vec<IpAddr>, Status> {
        let spec = Spec::of(service);
        if spec.is_external_name() || spec.is_headless() {
            return Ok(Vec::new());
        }
        let families: Vec<Family> = spec.families().into_iter().filter_map(Family::parse).collect();
        let mut texts: Vec<String> = spec.cluster_ips().into_iter().map(str::to_owned).collect();
        texts.resize(texts.len().max(families.len()), String::new());
        let mut allocated = Vec::new();
        for (i, family) in families.into_iter().enumerate().skip(from) {
            match self.allocate_address(context, service, family, &texts, i).await {
                Ok(address) => {
                    allocated.push(address);
                    if texts[i].is_empty() {
                        texts[i] = address.to_string();
                    }
                }
                Err(status) => {
                    self.release_addresses(context, service, &allocated).await;
                    return Err(status);
                }
            }
        }
        let mut spec = spec_mut(service);
        if let Some(first) = texts.first() {
            spec.set(ServiceSpec::CLUSTER_IP, first.as_str());
        }
        spec.set(ServiceSpec::CLUSTER_IPS, Value::from(texts));
        Ok(allocated)
    }

    async fn allocate_address(
        &self,
        context: &Context,
        service: &Value,
        family: Family,
        texts: &[String],
        i: usize,
    ) -> Result<IpAddr, Status> {
        let owner = owner(context, service);
        let requested = texts[i].as_str();
        let refused = |why: String| {
            let all = Value::from(texts.iter().map(String::as_str).collect::<Vec<_>>());
            let object = FieldRef::<Service>::root(service);
            let spec = object.at(Service::SPEC);
            invalid(service, &spec.at(ServiceSpec::CLUSTER_IPS).invalid_as(shown(Some(&all)), why).into())
        };
        if requested.is_empty() {
            let allocated = if context.dry_run {
                self.addresses.dry_run_next(family).await
            } else {
                self.addresses.allocate_next(family, owner).await
            };
            return allocated.map_err(|error| match error {
                AddressError::Full => Status::internal(format!(
                    "failed to allocate a serviceIP for Service {}: {error}",
                    go_quote(owner.name)
                )),
                error => refused(format!("failed to allocate IP: {error}")),
            });
        }
        let Some(address) = parse_ip(requested) else {
            return Err(Status::internal(format!("failed to parse service IP {}", go_quote(requested))));
        };
        let allocated = if context.dry_run {
            self.addresses.dry_run(address).await
        } else {
            self.addresses.allocate(address, owner).await
        };
        allocated.map(|()| address).map_err(|error| refused(format!("failed to allocate IP {requested}: {error}")))
    }

    async fn release_addresses(&self, context: &Context, service: &Value, addresses: &[IpAddr]) {
        if context.dry_run {
            return;
        }
        for address in addresses {
            self.addresses.release(*address, owner(context, service)).await;
        }
    }

    /// Deletes the endpoints of a service, so that a later service with the same name does not inherit them.
    async fn delete_endpoints(&self, owner: Owner<'_>) {
        let Ok(endpoints) = Objects::new(&self.resources, "", "v1", "endpoints") else { return };
        let context = Context::internal(owner.namespace);
        match endpoints.resource().delete(&context, owner.name, &DeleteOptions::default()).await {
            Err(status) if !status.is(StatusReason::NotFound) => {
                tracing::warn!(service = owner.name, error = status.message(), "failed to delete endpoints");
            }
            _ => {}
        }
    }
}

/// The addresses that a change of a service needs or releases.
enum AddressChange {
    None,
    /// The service needs addresses for its families from this index on.
    Allocate(usize),
    Release(Vec<IpAddr>),
}

fn address_change(service: &Value, old_service: &Value) -> AddressChange {
    let (new, old) = (Spec::of(service), Spec::of(old_service));
    if is_unchanged_dual_stack(service, old_service) {
        return AddressChange::None;
    }
    if old.is_external_name() {
        return if new.is_external_name() { AddressChange::None } else { AddressChange::Allocate(0) };
    }
    if old.is_headless() {
        return AddressChange::None;
    }
    if new.is_external_name() {
        return AddressChange::Release(old.addresses());
    }
    match (old.families().len(), new.families().len()) {
        (1, 2) => AddressChange::Allocate(1),
        (2, 1) => AddressChange::Release(old.addresses().into_iter().skip(1).collect()),
        _ => AddressChange::None,
    }
}

fn owner<'a>(context: &'a Context, service: &'a Value) -> Owner<'a> {
    Owner { namespace: &context.namespace, name: metadata(service).at(ObjectMeta::NAME).str() }
}
