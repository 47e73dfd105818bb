//! Table columns of the built-in kinds, as kubectl get prints them.
