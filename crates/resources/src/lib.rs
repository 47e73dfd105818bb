//! The built-in resources, each described in one place.
