//! A stand-in for etcd in test assets. Test harnesses (controller-runtime's envtest) start etcd, wait for its health, and
//! name it to kube-apiserver; this one answers the health check and says at [`PATH`] that it keeps nothing, upon which
//! kube-apiserver keeps the objects in its own memory.

mod command_line;
mod serving;

pub use command_line::{CommandLineError, HELP, Plan, read};
pub use serving::serve;

/// The path at which a stand-in says that it is one. No etcd answers there.
pub const PATH: &str = "/binnacle/etcd-stand-in";

/// The whole answer at [`PATH`].
pub const DOCUMENT: &str = "{\"kind\":\"EtcdStandIn\",\"keeps\":\"nothing\"}\n";
