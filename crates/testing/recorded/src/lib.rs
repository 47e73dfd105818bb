//! Requests and responses recorded from a Go kube-apiserver, replayed against the program in tests.
//!
//! `binnacle_comparison` reads the cases, sends their requests and compares the responses; this crate starts the server.

use std::net::SocketAddr;

use binnacle_comparison::Endpoint;
use binnacle_webhook::{Credential, Target};

/// Returns the server at an address, whose certificate an authority (PEM text) has signed for a name.
///
/// Requests use HTTP/1.1 without a client certificate, since some cases are anonymous.
///
/// # Errors
/// If the authority is unusable.
pub fn endpoint(address: SocketAddr, name: &str, authority: &str, token: &str) -> Result<Endpoint, String> {
    let mut target = Target::new(&format!("https://{address}")).map_err(|error| error.to_string())?;
    target.authorities = Some(authority.as_bytes().to_vec());
    target.server_name = Some(name.to_owned());
    target.http1 = true;
    target.credential = Credential::Bearer(token.to_owned());
    Endpoint::new(&target)
}
