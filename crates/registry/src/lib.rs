//! The generic verbs on a resource: create, get, list, watch, update, patch, delete.
