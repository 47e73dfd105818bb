//! May they do it: one file per authorizer, and their union.
