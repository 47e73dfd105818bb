//! JSON, without and with a schema.

use binnacle_schema::{JsonError, Limits, Value, decode, json};

use crate::objects;

/// The input is a JSON document.
pub fn json(data: &[u8]) {
    let limits = Limits::default();
    let message = match json::type_meta(data, &limits) {
        Ok(meta) => objects::message(&meta.api_version, &meta.kind),
        Err(_) => objects::message("v1", "Pod"),
    };
    let tree = json::parse(data, &limits);
    let typed = decode::json(data, message, &limits);
    match &tree {
        Ok(tree) => tells_the_same(tree, &limits),
        // A number that is too large for a tree may be the value of an unknown field.
        Err(JsonError::Number(_)) => {}
        Err(error) => assert!(typed.is_err() && !error.to_string().is_empty(), "{error}"),
    }
    let Ok(typed) = typed else { return };
    objects::survives(&typed.value, message);
    // A quantity keeps the text of a number, but the tree does not.
    if let Ok(tree) = tree
        && typed.findings.is_empty()
        && json::compact(data, &limits).as_deref() == Ok(json::to_string(&tree).as_str())
    {
        let from_tree = decode::value(tree, message).expect("bytes and trees decode alike").value;
        assert_eq!(objects::sorted(&from_tree), objects::sorted(&typed.value), "bytes and trees decode alike");
    }
}

fn tells_the_same(tree: &Value, limits: &Limits) {
    assert!(objects::depth(tree) <= limits.max_depth);
    if objects::has_odd_number(tree) {
        return;
    }
    let unbounded = Limits { max_bytes: usize::MAX, ..limits.clone() };
    let text = json::to_string(tree);
    let again = json::parse(text.as_bytes(), &unbounded);
    assert_eq!(again.as_ref().map(json::to_string).as_deref(), Ok(text.as_str()), "free JSON tells the same");
    let mut pretty = Vec::new();
    json::write_pretty(tree, &mut pretty);
    assert_eq!(json::compact(&pretty, &unbounded).as_deref(), Ok(text.as_str()), "indentation tells nothing");
}
