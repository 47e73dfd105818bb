//! JSONPath of printer columns.

use binnacle_json_path::JsonPath;

use crate::objects;

/// The input is an object, a line break and a path: the lookup of its values takes limited time.
pub fn json_path(data: &[u8]) {
    let Some((object, path)) = objects::two(data) else { return };
    let Some(path) = std::str::from_utf8(path).ok().and_then(|path| JsonPath::parse(path.trim_end()).ok()) else {
        return;
    };
    let found = path.find(&object);
    assert_eq!(path.find(&object), found, "the same path leads to the same values");
}
