//! Strategic merge patch.

use binnacle_patch::strategic;
use binnacle_schema::{Limits, Value, decode, json};

use crate::objects;

/// The input is an object of a kind, a line break and a patch.
pub fn strategic_patch(data: &[u8]) {
    let Some((live @ Value::Object(_), patch)) = objects::two(data) else { return };
    let Ok(patch @ Value::Object(_)) = json::parse(patch, &Limits::default()) else { return };
    let message = objects::message_of(&live);
    // Stored objects were decoded with their schema.
    let Ok(live) = decode::value(live, message).map(|decoded| decoded.value) else { return };
    let merged = match strategic::apply(live.clone(), &patch, message) {
        Ok(merged) => merged,
        Err(error) => {
            assert!(error.to_status().code() >= 400);
            return;
        }
    };
    assert!(objects::depth(&merged) <= objects::depth(&live).max(objects::depth(&patch)));
    let Ok(merged) = decode::value(merged, message).map(|decoded| decoded.value) else { return };
    objects::survives(&merged, message);
    // An empty patch changes nothing.
    let untouched = strategic::apply(live.clone(), &Value::Object(Default::default()), message);
    assert_eq!(untouched.ok().as_ref().map(objects::sorted), Some(objects::sorted(&live)));
}
