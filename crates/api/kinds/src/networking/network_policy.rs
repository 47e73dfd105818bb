//! NetworkPolicy: the traffic allowed to and from pods.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::ip::Legacy;
use binnacle_validation::metadata::shown;
use binnacle_validation::{ip, names, ports, selectors};

use crate::checks::{invalid_each, items, member, present, spec_path};
use crate::prepare::{default_to, first_generation, next_generation_exact, objects_at};
use crate::{Strategy, StrategyContext};

/// The directions, each with the member that lists its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_policy_types(spec);
        for (direction, _) in DIRECTIONS {
            let rules = spec.get_mut(direction).and_then(Value::as_list_mut);
            for rule in rules.into_iter().flatten() {
                for port in objects_at(rule, &["ports"]) {
                    default_to(port, "protocol", "TCP");
                }
            }
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation_exact(object, old, "spec");
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec(object, &Known { any_label_value: false, ranges: Legacy::of(situation.features) })
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let any_label_value = selectors::is_invalid(old.at(&["spec", "podSelector"]));
        let ranges = ip_blocks(old).into_iter().flat_map(|(_, block)| ranges(block));
        let ranges = Legacy::of(situation.features).knowing(ranges);
        spec(object, &Known { any_label_value, ranges })
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (path, block) in ip_blocks(object) {
            warnings.extend(ip::cidr_warnings(&path.child("cidr"), block.str_at(&["cidr"])));
            for (at, except) in items(block, "except", &path) {
                warnings.extend(ip::cidr_warnings(&at, except.as_str().unwrap_or_default()));
            }
        }
        warnings
    }
}

/// Invalid values of the old object, which an update may keep.
struct Known<'a> {
    any_label_value: bool,
    ranges: Legacy<'a>,
}

/// Sets the default directions of a policy: ingress, and egress if it has egress rules.
fn default_policy_types(spec: &mut Object) {
    let is_empty = |name| spec.get(name).and_then(Value::as_list).is_none_or(<[Value]>::is_empty);
    if !is_empty("policyTypes") {
        return;
    }
    let types = if is_empty("egress") { vec!["Ingress"] } else { vec!["Ingress", "Egress"] };
    spec.insert("policyTypes", types);
}

fn spec(policy: &Value, known: &Known<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(policy, "spec"), spec_path());
    selectors::label_selector(spec.get("podSelector"), known.any_label_value, &path.child("podSelector"), &mut errors);
    for (direction, peers) in DIRECTIONS {
        for (at, rule) in errors.while_room(items(spec, direction, &path)) {
            for (at, port) in errors.while_room(items(rule, "ports", &at)) {
                validate_port(port, &at, &mut errors);
            }
            for (at, peer) in errors.while_room(items(rule, peers, &at)) {
                validate_peer(peer, known, &at, &mut errors);
            }
        }
    }
    let types = spec.list_at(&["policyTypes"]);
    let at = path.child("policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&at, shown(spec.get("policyTypes")), detail));
        return errors;
    }
    for (i, kind) in errors.while_room(types.iter().filter_map(Value::as_str).enumerate()) {
        crate::checks::one_of(&at.index(i), kind, &["Ingress", "Egress"], &mut errors);
    }
    errors
}

fn validate_port(port: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(protocol) = present(port, "protocol").and_then(Value::as_str) {
        crate::checks::one_of(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let end = present(port, "endPort").and_then(Value::as_i64);
    let (at, end_at) = (path.child("port"), path.child("endPort"));
    match (present(port, "port"), end) {
        (Some(Value::Int(number)), end) => {
            ports::number(&at, *number, errors);
            if let Some(end) = end {
                if end < *number {
                    errors.push(FieldError::invalid(&end_at, *number, "must be greater than or equal to `port`"));
                }
                ports::number(&end_at, end, errors);
            }
        }
        (Some(name), end) => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(&end_at, end, "may not be specified when `port` is non-numeric"));
            }
            let name = name.as_str().unwrap_or_default();
            invalid_each(&at, name, &names::port_name(name), errors);
        }
        (None, Some(end)) => {
            errors.push(FieldError::invalid(&end_at, end, "may not be specified when `port` is not specified"));
        }
        (None, None) => {}
    }
}

fn validate_peer(peer: &Value, known: &Known<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut peers = 0;
    for name in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = present(peer, name) {
            peers += 1;
            selectors::label_selector(Some(selector), known.any_label_value, &path.child(name), errors);
        }
    }
    let block = present(peer, "ipBlock");
    if let Some(block) = block {
        peers += 1;
        validate_ip_block(block, &known.ranges, &path.child("ipBlock"), errors);
    }
    if peers == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    } else if peers > 1 && block.is_some() {
        errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn validate_ip_block(block: &Value, known: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let (range, at) = (block.str_at(&["cidr"]), path.child("cidr"));
    if range.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    ip::legacy_cidr(&at, range, known, errors);
    let Some(range) = ip::parse_cidr(range) else { return };
    for (at, except) in errors.while_room(items(block, "except", path)) {
        let text = except.as_str().unwrap_or_default();
        ip::legacy_cidr(&at, text, known, errors);
        let Some(except) = ip::parse_cidr(text) else { continue };
        if !range.contains(except.masked()) || range.prefix >= except.prefix {
            errors.push(FieldError::invalid(&at, text, "must be a strict subset of `cidr`"));
        }
    }
}

/// Returns all address blocks of a policy with their paths.
fn ip_blocks(policy: &Value) -> Vec<(FieldPath, &Value)> {
    let (spec, path) = (member(policy, "spec"), spec_path());
    let mut blocks = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (at, rule) in items(spec, direction, &path) {
            for (at, peer) in items(rule, peers, &at) {
                blocks.extend(present(peer, "ipBlock").map(|block| (at.child("ipBlock"), block)));
            }
        }
    }
    blocks
}

fn ranges(block: &Value) -> impl Iterator<Item = &str> {
    let except = block.list_at(&["except"]).iter().filter_map(Value::as_str);
    std::iter::once(block.str_at(&["cidr"])).chain(except)
}
