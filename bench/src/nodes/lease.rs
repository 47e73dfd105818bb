//! Leases in protobuf, as a kubelet sends and reads them.

use std::time::{SystemTime, UNIX_EPOCH};

const NAMESPACE: &str = "kube-node-lease";
/// What precedes a message of `runtime.Unknown`.
const MAGIC: &[u8] = b"k8s\0";

pub(crate) const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub(crate) const HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/vnd.kubernetes.protobuf"),
    ("accept", "application/vnd.kubernetes.protobuf,application/json"),
];

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Returns the lease of a node, renewed now. A lease that is to be created has no version.
pub(crate) fn encode(name: &str, version: Option<u64>) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (mut metadata, mut time, mut spec, mut lease) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    bytes(&mut metadata, 1, name.as_bytes());
    bytes(&mut metadata, 3, NAMESPACE.as_bytes());
    if let Some(version) = version {
        bytes(&mut metadata, 6, version.to_string().as_bytes());
    }
    number(&mut time, 1, now.as_secs());
    number(&mut time, 2, u64::from(now.subsec_nanos()));
    bytes(&mut spec, 1, name.as_bytes());
    number(&mut spec, 2, 40);
    bytes(&mut spec, 4, &time);
    bytes(&mut lease, 1, &metadata);
    bytes(&mut lease, 2, &spec);
    let (mut kind, mut body) = (Vec::new(), MAGIC.to_vec());
    bytes(&mut kind, 1, b"coordination.k8s.io/v1");
    bytes(&mut kind, 2, b"Lease");
    bytes(&mut body, 1, &kind);
    bytes(&mut body, 2, &lease);
    body
}

fn read_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns the bytes of a field.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let tag = read_varint(&mut message)?;
        let length = read_varint(&mut message)?;
        if tag & 7 == 0 {
            continue;
        }
        let (value, rest) = message.split_at_checked(usize::try_from(length).ok()?)?;
        if tag >> 3 == wanted {
            return Some(value);
        }
        message = rest;
    }
    None
}

/// Returns the version of the lease in a response.
pub(crate) fn version(response: &[u8]) -> Option<u64> {
    let metadata = field(field(response.strip_prefix(MAGIC)?, 2)?, 1)?;
    std::str::from_utf8(field(metadata, 6)?).ok()?.parse().ok()
}
