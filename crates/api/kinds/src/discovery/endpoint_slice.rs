//! EndpointSlice: a part of the addresses behind a service.

use std::collections::HashSet;
use std::iter::zip;

use binnacle_fields::discovery::v1::{self, Endpoint, EndpointPort};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{ip, names};

use super::validation;
use crate::checks::immutable_enum;
use crate::prepare::{count_generation_if, semantically_equal, start_generation};
use crate::{MetadataChecks, Strategy, StrategyContext};

type Slice = v1::EndpointSlice;

pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        for mut port in FieldMut::root(object).items(Slice::PORTS) {
            port.default_nil(EndpointPort::NAME, "");
            port.default_nil(EndpointPort::PROTOCOL, "TCP");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut slice = FieldMut::<Slice>::root(object);
        start_generation(&mut slice);
        drop_topology(&mut slice, None);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Slice>::root(object), FieldRef::root(old));
        let has_changed = zip(parts(new.read()), parts(old)).any(|(new, old)| !semantically_equal(new, old));
        count_generation_if(has_changed, &mut new, old);
        drop_topology(&mut new, Some(old));
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::slice(ctx.features, FieldRef::root(object), None)
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let (new, old) = (FieldRef::<Slice>::root(object), FieldRef::root(old));
        let mut errors = validation::slice(ctx.features, new, Some(old));
        immutable_enum(new.at(Slice::ADDRESS_TYPE), old.at(Slice::ADDRESS_TYPE), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let slice = FieldRef::<Slice>::root(object);
        let mut warnings = Vec::new();
        if old.is_none() && slice.at(Slice::ADDRESS_TYPE).str() == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        // Kubernetes' own controllers write canonical addresses.
        let manager = slice.at(Slice::METADATA).at(ObjectMeta::LABELS).key(MANAGED_BY).str();
        if !matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
            for endpoint in slice.at(Slice::ENDPOINTS).items() {
                for address in endpoint.at(Endpoint::ADDRESSES).items() {
                    warnings.extend(ip::ip_warnings(&address, address.str()));
                }
            }
        }
        warnings
    }
}

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The label that held the node name in v1beta1.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Returns the fields whose changes start a new generation.
fn parts<'v>(slice: FieldRef<'_, 'v, Slice>) -> [Option<&'v Value>; 4] {
    let labels = slice.at(Slice::METADATA).at(ObjectMeta::LABELS).get();
    [slice.at(Slice::ADDRESS_TYPE).get(), slice.at(Slice::ENDPOINTS).get(), slice.at(Slice::PORTS).get(), labels]
}

/// Drops `deprecatedTopology`, which only v1beta1 could set, in writes through v1. A node name in it moves to its own
/// field, so that clients that write back an object lose nothing.
fn drop_topology(slice: &mut FieldMut<Slice>, old: Option<FieldRef<Slice>>) {
    let has_same = |old: FieldRef<Slice>| {
        semantically_equal(slice.read().at(Slice::ENDPOINTS).get(), old.at(Slice::ENDPOINTS).get())
    };
    if old.is_some_and(has_same) {
        return;
    }
    let old_nodes = old.map(nodes).unwrap_or_default();
    for mut endpoint in slice.items(Slice::ENDPOINTS) {
        let Some(topology) = endpoint.remove(Endpoint::DEPRECATED_TOPOLOGY) else { continue };
        let node = topology.str_at(&[HOSTNAME]);
        if !node.is_empty() && old_nodes.contains(node) && names::dns1123_subdomain(node).is_empty() {
            endpoint.default_nil(Endpoint::NODE_NAME, node);
        }
    }
}

/// Returns the node names in `deprecatedTopology`.
fn nodes<'v>(slice: FieldRef<'_, 'v, Slice>) -> HashSet<&'v str> {
    let endpoints = slice.at(Slice::ENDPOINTS);
    endpoints.items().map(|endpoint| endpoint.at(Endpoint::DEPRECATED_TOPOLOGY).key(HOSTNAME).str()).collect()
}
