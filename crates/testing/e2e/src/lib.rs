//! The tests are in `tests/`, one file per story; `manifests/` has the objects that they apply.
