//! Nothing here: the tests are in `tests/`, a file for each story, and `manifests/` holds what they apply.
