//! NetworkPolicy: the traffic allowed to and from pods.

use binnacle_fields::networking::v1::{
    self, IPBlock, NetworkPolicyEgressRule as EgressRule, NetworkPolicyIngressRule as IngressRule,
    NetworkPolicyPeer as Peer, NetworkPolicyPort as Port, NetworkPolicySpec as Spec,
};
use binnacle_fields::types::List;
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks::{invalid_for, one_of};
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{ip, names, ports, selectors};

use crate::prepare::{count_generation_exact, start_generation};
use crate::{Strategy, StrategyContext};

pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut policy = FieldMut::<v1::NetworkPolicy>::root(object);
        let mut spec = policy.entry(v1::NetworkPolicy::SPEC);
        default_policy_types(&mut spec);
        for mut rule in spec.items(Spec::INGRESS) {
            rule.items(IngressRule::PORTS).for_each(default_protocol);
        }
        for mut rule in spec.items(Spec::EGRESS) {
            rule.items(EgressRule::PORTS).for_each(default_protocol);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        start_generation(&mut FieldMut::<v1::NetworkPolicy>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation_exact(&mut FieldMut::root(object), FieldRef::root(old), v1::NetworkPolicy::SPEC);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(
            FieldRef::root(object),
            &Leniency { any_label_value: false, ranges: LegacyIpRules::of(ctx.features) },
        )
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old = FieldRef::<v1::NetworkPolicy>::root(old);
        let any_label_value = selectors::is_invalid(old.at(v1::NetworkPolicy::SPEC).at(Spec::POD_SELECTOR).get());
        let mut ranges = Vec::new();
        visit_blocks(old, |block| {
            ranges.push(block.at(IPBlock::CIDR).str());
            ranges.extend(block.at(IPBlock::EXCEPT).strs());
        });
        let ranges = LegacyIpRules::of(ctx.features).allowing_existing(ranges);
        spec_rules(FieldRef::root(object), &Leniency { any_label_value, ranges })
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        visit_blocks(FieldRef::root(object), |block| {
            let range = block.at(IPBlock::CIDR);
            warnings.extend(ip::cidr_warnings(&range, range.str()));
            for except in block.at(IPBlock::EXCEPT).items() {
                warnings.extend(ip::cidr_warnings(&except, except.str()));
            }
        });
        warnings
    }
}

/// Invalid values of the old object, which an update may keep.
struct Leniency<'a> {
    any_label_value: bool,
    ranges: LegacyIpRules<'a>,
}

/// Sets the default directions of a policy: ingress, and egress if it has egress rules.
fn default_policy_types(spec: &mut FieldMut<Spec>) {
    if !spec.read().at(Spec::POLICY_TYPES).is_empty() {
        return;
    }
    let types = if spec.read().at(Spec::EGRESS).is_empty() { vec!["Ingress"] } else { vec!["Ingress", "Egress"] };
    spec.set(Spec::POLICY_TYPES, Value::from(types));
}

fn default_protocol(mut port: FieldMut<Port>) {
    port.default_nil(Port::PROTOCOL, "TCP");
}

fn spec_rules(policy: FieldRef<v1::NetworkPolicy>, leniency: &Leniency<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = policy.at(v1::NetworkPolicy::SPEC);
    let selector = spec.at(Spec::POD_SELECTOR);
    selectors::validate(selector, leniency.any_label_value, &mut errors);
    rules(spec.at(Spec::INGRESS), (IngressRule::PORTS, IngressRule::FROM), leniency, &mut errors);
    rules(spec.at(Spec::EGRESS), (EgressRule::PORTS, EgressRule::TO), leniency, &mut errors);
    let types = spec.at(Spec::POLICY_TYPES);
    if types.len() > 2 {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return errors;
    }
    for kind in errors.while_room(types.items()) {
        one_of(&kind, kind.str(), &["Ingress", "Egress"], &mut errors);
    }
    errors
}

/// Validates the rules of a direction, which have their ports and peers in these fields.
fn rules<R>(
    rules: FieldRef<List<R>>,
    (ports, peers): (Field<R, List<Port>>, Field<R, List<Peer>>),
    leniency: &Leniency<'_>,
    errors: &mut FieldErrors,
) {
    for rule in errors.while_room(rules.items()) {
        for port in errors.while_room(rule.at(ports).items()) {
            validate_port(port, errors);
        }
        for peer in errors.while_room(rule.at(peers).items()) {
            validate_peer(peer, leniency, errors);
        }
    }
}

fn validate_port(port: FieldRef<Port>, errors: &mut FieldErrors) {
    let protocol = port.at(Port::PROTOCOL);
    if let Some(text) = protocol.get_str() {
        one_of(&protocol, text, &["TCP", "UDP", "SCTP"], errors);
    }
    let (start, end) = (port.at(Port::PORT), port.at(Port::END_PORT));
    match (start.get(), end.int()) {
        (Some(Value::Int(number)), last) => {
            ports::number(&start, *number, errors);
            if let Some(last) = last {
                if last < *number {
                    errors.push(end.invalid_as(*number, "must be greater than or equal to `port`"));
                }
                ports::number(&end, last, errors);
            }
        }
        (Some(name), last) => {
            if last.is_some() {
                errors.push(end.invalid("may not be specified when `port` is non-numeric"));
            }
            let name = name.as_str().unwrap_or_default();
            invalid_for(&start, name, names::port_name(name), errors);
        }
        (None, Some(_)) => errors.push(end.invalid("may not be specified when `port` is not specified")),
        (None, None) => {}
    }
}

fn validate_peer(peer: FieldRef<Peer>, leniency: &Leniency<'_>, errors: &mut FieldErrors) {
    let mut peers = 0;
    for field in [Peer::POD_SELECTOR, Peer::NAMESPACE_SELECTOR] {
        let selector = peer.at(field);
        if selector.is_set() {
            peers += 1;
            selectors::validate(selector, leniency.any_label_value, errors);
        }
    }
    let block = peer.at(Peer::IP_BLOCK);
    if block.is_set() {
        peers += 1;
        validate_ip_block(block, &leniency.ranges, errors);
    }
    if peers == 0 {
        errors.push(peer.required("must specify a peer"));
    } else if peers > 1 && block.is_set() {
        errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
    }
}

fn validate_ip_block(block: FieldRef<IPBlock>, leniency: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let range = block.at(IPBlock::CIDR);
    if range.is_empty() {
        errors.push(range.required(""));
        return;
    }
    ip::legacy_cidr(&range, range.str(), leniency, errors);
    let Some(range) = ip::parse_cidr(range.str()) else { return };
    for except in errors.while_room(block.at(IPBlock::EXCEPT).items()) {
        ip::legacy_cidr(&except, except.str(), leniency, errors);
        let Some(part) = ip::parse_cidr(except.str()) else { continue };
        if !range.contains(part.masked()) || range.prefix >= part.prefix {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

/// Calls a function with each address block of a policy.
fn visit_blocks<'v>(policy: FieldRef<'_, 'v, v1::NetworkPolicy>, mut visit: impl FnMut(FieldRef<'_, 'v, IPBlock>)) {
    let mut visit_peer = |peer: FieldRef<'_, 'v, Peer>| {
        if let Some(block) = peer.at(Peer::IP_BLOCK).set() {
            visit(block);
        }
    };
    let spec = policy.at(v1::NetworkPolicy::SPEC);
    for rule in spec.at(Spec::INGRESS).items() {
        rule.at(IngressRule::FROM).items().for_each(&mut visit_peer);
    }
    for rule in spec.at(Spec::EGRESS).items() {
        rule.at(EgressRule::TO).items().for_each(&mut visit_peer);
    }
}
