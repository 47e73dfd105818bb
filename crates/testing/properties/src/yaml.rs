//! YAML, without and with a schema.

use binnacle_schema::{Limits, decode, yaml};

use crate::objects;

/// The input is a YAML document.
pub fn yaml(data: &[u8]) {
    let limits = Limits::default();
    let Ok((tree, _)) = yaml::parse(data, &limits) else {
        assert!(decode::yaml(data, objects::message("v1", "Pod"), &limits).is_err());
        return;
    };
    assert!(objects::depth(&tree) <= limits.max_depth);
    if objects::has_odd_number(&tree) {
        return;
    }
    let text = yaml::to_string(&tree);
    let unbounded =
        Limits { max_bytes: usize::MAX, max_yaml_nodes: 1 << 30, max_memory: usize::MAX, ..Limits::default() };
    match yaml::parse(text.as_bytes(), &unbounded) {
        Ok((again, finding)) => {
            assert_eq!(finding, None, "no key is written twice:\n{text}");
            assert_eq!(objects::sorted(&again), objects::sorted(&tree), "free YAML tells the same:\n{text}");
        }
        Err(error) => panic!("{error}:\n{text}"),
    }
    let message = objects::message_of(&tree);
    if let Ok(decoded) = decode::yaml(data, message, &limits) {
        objects::survives(&decoded.value, message);
    }
}
