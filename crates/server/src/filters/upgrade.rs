//! Takes the connection out of a request that asks for it to be upgraded.

use binnacle_request::{ByteStream, Upgrade};
use http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

pub(crate) fn of(parts: &mut Parts) -> Option<Upgrade> {
    let connection = parts.extensions.remove::<OnUpgrade>()?;
    Some(Upgrade::new(async {
        let upgraded = connection.await.map_err(std::io::Error::other)?;
        Ok(Box::new(TokioIo::new(upgraded)) as Box<dyn ByteStream>)
    }))
}
