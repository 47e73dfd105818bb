//! A stand-in for etcd in test assets. Test harnesses (controller-runtime's envtest) start etcd, wait for its health
//! check, and pass its address to kube-apiserver. The stand-in answers the health check, and reports at [`PATH`] that
//! it stores nothing; kube-apiserver then keeps the objects in its own memory.

mod command_line;
mod serving;

pub use command_line::{CommandLineError, HELP, Plan, read};
pub use serving::serve;

/// The path at which a stand-in identifies itself. etcd does not serve it.
pub const PATH: &str = "/binnacle/etcd-stand-in";

/// The body of the response at [`PATH`].
pub const DOCUMENT: &str = "{\"kind\":\"EtcdStandIn\",\"keeps\":\"nothing\"}\n";
