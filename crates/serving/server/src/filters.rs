//! The filters of the chain, one file each. They are independent of each other; `chain.rs` puts them in order.

pub(crate) mod audit;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod cors;
pub(crate) mod deadline;
pub(crate) mod draining;
pub(crate) mod fairness;
pub(crate) mod goaway;
pub(crate) mod headers;
pub(crate) mod impersonate;
pub(crate) mod inflight;
pub(crate) mod info;
pub(crate) mod not_ready;
pub(crate) mod panics;
pub(crate) mod record;
pub(crate) mod upgrade;
pub(crate) mod work;
