//! JSON patch.

use binnacle_patch::json_patch;
use binnacle_schema::Limits;

use crate::objects;

/// The input is a document, a line break and a patch.
pub fn json_patch(data: &[u8]) {
    let Some((live, patch)) = objects::two(data) else { return };
    let Ok(patch) = json_patch::parse(patch) else { return };
    let before = objects::sorted(&live).len();
    match patch.apply(live) {
        Ok(patched) => {
            assert!(objects::depth(&patched) <= Limits::default().max_depth, "nests within what a decoder reads");
            let grown = objects::sorted(&patched).len().saturating_sub(before);
            // Characters of the patch may become escaped, with six bytes each.
            assert!(grown <= Limits::MAX_BODY + 6 * data.len(), "grows within the limit of copies");
        }
        Err(status) => assert_eq!(status.code(), 422),
    }
}
