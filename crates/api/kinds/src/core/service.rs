//! `Service`: an address for a set of pods.

mod allocated;
mod type_change;
mod validation;

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value, value};
use binnacle_validation::names;

use crate::Features;
use crate::tree_names::{default_nil, default_zero, is_nil, keep, structs_mut, text};
use crate::{Strategy, StrategyContext};

const CLIENT_IP_TIMEOUT: i64 = 3 * 60 * 60;

pub(super) struct Service;

impl Strategy for Service {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        set_session_defaults(spec);
        default_zero(spec, "type", "ClusterIP");
        structs_mut(spec, "ports").for_each(set_port_defaults);
        if is_externally_accessible(spec) {
            default_zero(spec, "externalTrafficPolicy", "Cluster");
        }
        let kind = text(spec, "type").to_owned();
        if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind.as_str()) {
            default_nil(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default_nil(spec, "allocateLoadBalancerNodePorts", true);
            set_ingress_defaults(object);
        }
    }

    fn completes_stored(&self) -> bool {
        true
    }

    /// Completes services that were written before addresses and families became lists.
    fn complete_stored(&self, object: &mut Value) -> bool {
        let completed = allocated::complete_addresses(object);
        type_change::drop_internal_policy(object) || completed
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        object.make_object().remove("status");
        allocated::fill_cluster_ips(object);
        type_change::drop_internal_policy(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        // Fields that the client omits count as unchanged when a new type drops dependent fields.
        allocated::keep_allocated(object, old);
        allocated::agree_on_cluster_ips(object, old);
        type_change::drop_dependent_fields(object, old);
        type_change::drop_internal_policy(object);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
    }

    /// Validates the name, which may begin with a digit if `RelaxedServiceNameValidation` is on.
    fn validate_name(&self, features: &Features, name: &str, prefix: bool) -> Vec<String> {
        if features.enabled("RelaxedServiceNameValidation") {
            names::dns1123_label_name(name, prefix)
        } else {
            names::dns1035_label_name(name, prefix)
        }
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(situation.features, object, None)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(situation.features, object, old)
    }

    fn validate_subresource(
        &self,
        _: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validation::validate_status(situation.features, object, old)
    }

    fn warnings_on_subresource(&self, _: &str, object: &Value) -> Vec<String> {
        binnacle_validation::ip::load_balancer_warnings(object)
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        validation::warnings(object)
    }
}

fn set_session_defaults(spec: &mut Object) {
    default_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = spec.get("sessionAffinityConfig").and_then(|c| c.at(&["clientIP", "timeoutSeconds"]));
            if timeout.is_none_or(Value::is_null) {
                spec.insert("sessionAffinityConfig", value!({"clientIP": {"timeoutSeconds": CLIENT_IP_TIMEOUT}}));
            }
        }
        _ => {}
    }
}

fn set_port_defaults(port: &mut Object) {
    default_zero(port, "protocol", "TCP");
    default_zero(port, "targetPort", port.get("port").and_then(Value::as_i64).unwrap_or(0));
}

/// Sets the default `ipMode` of load balancers that have an address.
fn set_ingress_defaults(object: &mut Value) {
    let status = object.at_mut(&["status", "loadBalancer"]).and_then(Value::as_object_mut);
    for ingress in status.into_iter().flat_map(|balancer| structs_mut(balancer, "ingress")) {
        if !text(ingress, "ip").is_empty() && is_nil(ingress, "ipMode") {
            ingress.insert("ipMode", "VIP");
        }
    }
}

/// Returns true if traffic from outside the cluster can reach the service.
fn is_externally_accessible(spec: &Object) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => spec.get("externalIPs").and_then(Value::as_list).is_some_and(|ips| !ips.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
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
