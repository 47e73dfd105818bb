//! Diagnostics of the process besides metrics and logs: [profiles](profiles) in pprof's format, and [traces](traces),
//! which are exported to a collector by OTLP.

pub mod profiles;
pub mod traces;
