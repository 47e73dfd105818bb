//! The tests are in `tests/`, one file per topic; `manifests/` has the objects that they apply.
