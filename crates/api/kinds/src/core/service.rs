//! `Service`: a stable address for a set of pods.

mod allocations;
mod type_change;
mod validation;

use binnacle_fields::core::v1::{
    self, ClientIPConfig, LoadBalancerIngress, LoadBalancerStatus, ServicePort, ServiceSpec as Spec,
    ServiceStatus as Status, SessionAffinityConfig,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::names;

use crate::Features;
use crate::{Strategy, StrategyContext};

const CLIENT_IP_TIMEOUT: i64 = 3 * 60 * 60;

pub(super) struct Service;

impl Strategy for Service {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut service = FieldMut::<v1::Service>::root(object);
        let mut spec = service.entry(v1::Service::SPEC);
        set_session_defaults(&mut spec);
        spec.default_zero(Spec::TYPE, "ClusterIP");
        spec.items(Spec::PORTS).for_each(set_port_defaults);
        if is_externally_accessible(spec.read()) {
            spec.default_zero(Spec::EXTERNAL_TRAFFIC_POLICY, "Cluster");
        }
        if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&spec.str(Spec::TYPE)) {
            spec.default_nil(Spec::INTERNAL_TRAFFIC_POLICY, "Cluster");
        }
        if spec.str(Spec::TYPE) == "LoadBalancer" {
            spec.default_nil(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS, true);
            set_ingress_defaults(&mut service);
        }
    }

    fn completes_stored(&self) -> bool {
        true
    }

    /// Completes services that were written before addresses and families became lists.
    fn complete_stored(&self, object: &mut Value) -> bool {
        let mut service = FieldMut::root(object);
        let completed = allocations::complete_addresses(&mut service);
        type_change::drop_internal_policy(&mut service) || completed
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut service = FieldMut::root(object);
        service.remove(v1::Service::STATUS);
        allocations::fill_cluster_ips(&mut service);
        type_change::drop_internal_policy(&mut service);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut service, old) = (FieldMut::root(object), FieldRef::root(old));
        service.keep(old, v1::Service::STATUS);
        // Fields that the client omits count as unchanged when a new type drops dependent fields.
        allocations::keep_allocated(&mut service, old);
        allocations::agree_on_cluster_ips(&mut service, old);
        type_change::drop_dependent_fields(&mut service, old);
        type_change::drop_internal_policy(&mut service);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), v1::Service::SPEC);
    }

    /// Validates the name, which may begin with a digit if `RelaxedServiceNameValidation` is on.
    fn validate_name(&self, features: &Features, name: &str, prefix: bool) -> Vec<String> {
        if features.enabled("RelaxedServiceNameValidation") {
            names::dns1123_label_name(name, prefix)
        } else {
            names::dns1035_label_name(name, prefix)
        }
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(ctx.features, FieldRef::root(object), None)
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(ctx.features, FieldRef::root(object), FieldRef::root(old))
    }

    fn validate_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_status(ctx.features, FieldRef::root(object), FieldRef::root(old))
    }

    fn warnings_on_subresource(&self, _: &str, object: &Value) -> Vec<String> {
        binnacle_validation::ip::load_balancer_warnings(object)
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        validation::warnings(FieldRef::root(object))
    }
}

fn set_session_defaults(spec: &mut FieldMut<Spec>) {
    spec.default_zero(Spec::SESSION_AFFINITY, "None");
    match spec.str(Spec::SESSION_AFFINITY) {
        "None" => drop(spec.remove(Spec::SESSION_AFFINITY_CONFIG)),
        "ClientIP" => {
            let mut config = spec.entry(Spec::SESSION_AFFINITY_CONFIG);
            let mut client = config.entry(SessionAffinityConfig::CLIENT_IP);
            client.default_nil(ClientIPConfig::TIMEOUT_SECONDS, CLIENT_IP_TIMEOUT);
        }
        _ => {}
    }
}

fn set_port_defaults(mut port: FieldMut<ServicePort>) {
    port.default_zero(ServicePort::PROTOCOL, "TCP");
    let number = port.read().at(ServicePort::PORT).int_or_zero();
    port.default_zero(ServicePort::TARGET_PORT, number);
}

/// Sets the default `ipMode` of load balancers that have an address.
fn set_ingress_defaults(service: &mut FieldMut<v1::Service>) {
    let Some(mut status) = service.structure(v1::Service::STATUS) else { return };
    let Some(mut balancer) = status.structure(Status::LOAD_BALANCER) else { return };
    for mut ingress in balancer.items(LoadBalancerStatus::INGRESS) {
        if !ingress.str(LoadBalancerIngress::IP).is_empty() {
            ingress.default_nil(LoadBalancerIngress::IP_MODE, "VIP");
        }
    }
}

/// Returns true if traffic from outside the cluster can reach the service.
fn is_externally_accessible(spec: FieldRef<Spec>) -> bool {
    match spec.at(Spec::TYPE).str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.at(Spec::EXTERNAL_IPS).is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_service_defaults() {
        for (given, want) in [
            (
                value!({"ports": [{"port": 80i64}, {"port": 81i64, "targetPort": "web", "protocol": "UDP"}], "sessionAffinityConfig": {}}),
                value!({
                    "ports": [{"port": 80i64, "protocol": "TCP", "targetPort": 80i64}, {"port": 81i64, "targetPort": "web", "protocol": "UDP"}],
                    "sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"
                }),
            ),
            (
                value!({"type": "ExternalName", "sessionAffinity": "ClientIP"}),
                value!({
                    "type": "ExternalName", "sessionAffinity": "ClientIP",
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800i64}}
                }),
            ),
            (
                value!({"type": "LoadBalancer"}),
                value!({
                    "type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
                    "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true
                }),
            ),
            (
                value!({"externalIPs": ["1.2.3.4"]}),
                value!({
                    "externalIPs": ["1.2.3.4"], "type": "ClusterIP", "sessionAffinity": "None",
                    "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster"
                }),
            ),
        ] {
            let mut object = value!({"spec": given});
            Service.set_defaults("v1", &mut object);
            assert_eq!(object, value!({"spec": want}));
        }
    }
}
