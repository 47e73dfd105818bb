//! CBOR, with a schema and without.

use binnacle_schema::{CborError, Limits, cbor, decode};

use crate::objects;

/// Checks decoding and encoding with arbitrary input as the document.
pub fn cbor(data: &[u8]) {
    let limits = Limits::default();
    let message = match decode::cbor_type_meta(data, &limits) {
        Ok(meta) => objects::message(&meta.api_version, &meta.kind),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            objects::message("v1", "Pod")
        }
    };
    assert!(data.is_empty() || !cbor::diagnose(data).is_empty());
    match cbor::parse(data, &limits) {
        Ok(tree) => {
            assert!(objects::depth(&tree) <= limits.max_depth);
            // A decoded tree survives encoding and decoding, whatever the order of its members.
            for write in [|tree: &_, out: &mut _| cbor::write(tree, None, out), cbor::write_sorted] {
                let mut written = Vec::new();
                write(&tree, &mut written);
                let unbounded = Limits { max_bytes: usize::MAX, ..limits.clone() };
                assert_eq!(cbor::parse(&written, &unbounded).as_ref(), Ok(&tree), "CBOR tells the same");
            }
        }
        Err(CborError::Document(why)) => assert!(!why.is_empty()),
        Err(_) => {}
    }
    if let Ok(typed) = decode::cbor(data, message, &limits) {
        objects::survives(&typed.value, message);
        let mut written = Vec::new();
        cbor::write(&typed.value, Some(message), &mut written);
        let unbounded = Limits { max_bytes: usize::MAX, max_memory: usize::MAX, ..limits };
        let again = decode::cbor(&written, message, &unbounded).expect("what is written can be read");
        assert_eq!(objects::sorted(&again.value), objects::sorted(&typed.value), "typed CBOR tells the same");
    }
}
