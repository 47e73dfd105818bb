//! Protobuf: envelopes and the messages in them.

use binnacle_kinds::tables;
use binnacle_schema::proto::{self, Overrides, Splice};
use binnacle_schema::{Message, json};

use crate::objects;

/// The input is an envelope, or a message after two bytes that choose its kind.
pub fn protobuf(data: &[u8]) {
    if data.starts_with(proto::MAGIC) {
        if let Ok(envelope) = proto::unwrap(data) {
            let message = objects::message(&envelope.api_version, &envelope.kind);
            reads(envelope.raw, message, &envelope.api_version, &envelope.kind);
        }
    } else if let [high, low, raw @ ..] = data {
        let at = usize::from(u16::from_be_bytes([*high, *low]));
        let kinds = tables::kinds();
        let at = at % kinds.len();
        let kind = tables::kinds().nth(at).expect("is below their number");
        reads(raw, kind.message, kind.version, kind.kind);
    }
}

fn reads(raw: &[u8], message: &Message, api_version: &str, kind: &str) {
    let tree = proto::decode_object(raw, message, api_version, kind, proto::DEPTH);
    let mut streamed = Vec::new();
    let json = proto::to_json(raw, message, api_version, kind, Overrides::default(), &mut streamed);
    let tree = match (tree, json) {
        (Ok(tree), Ok(())) => tree,
        (Err(_), Err(_)) => return,
        (tree, json) => panic!("{tree:?} but {json:?}"),
    };
    let text = json::to_string(&tree);
    assert_eq!(String::from_utf8_lossy(&streamed), text, "both readers read the same");
    let mut stored = Vec::new();
    proto::encode(&tree, message, &mut stored);
    objects::stored_survives(&stored, &tree, message);

    // Sets the resourceVersion in place, as reads of stored objects do.
    if objects::is_resource(message) && Splice::find(&stored).is_ok() {
        let spliced = proto::splice_resource_version(&stored, "4711").expect("was found before");
        let mut direct = Vec::new();
        let overrides = Overrides { resource_version: Some("4711") };
        proto::to_json(&stored, message, api_version, kind, overrides, &mut direct).expect("was read before");
        let mut with_splice = Vec::new();
        proto::to_json(&spliced, message, api_version, kind, Overrides::default(), &mut with_splice)
            .expect("a version does not spoil it");
        assert_eq!(String::from_utf8_lossy(&with_splice), String::from_utf8_lossy(&direct), "spliced or overridden");
    }
}
