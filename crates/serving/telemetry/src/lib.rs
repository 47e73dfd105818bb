//! What operators see of the process beside metrics and logs: [profiles](profiles) in pprof's format, and
//! [traces](traces) that are sent to a collector by OTLP.

pub mod profiles;
pub mod traces;
