//! The client's connection as a byte stream, after a 101 response.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::BoxFuture;

/// A bidirectional stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// The right to take over the connection, if the client requested an upgrade on a connection that supports it
/// (HTTP/1.1).
pub struct Upgrade(BoxFuture<'static, io::Result<Box<dyn ByteStream>>>);

impl Upgrade {
    pub fn new(connection: impl Future<Output = io::Result<Box<dyn ByteStream>>> + Send + 'static) -> Self {
        Self(Box::pin(connection))
    }

    /// Resolves once the response head has been written, so the response must be returned first. Fails if the response
    /// was not 101 or the client has disconnected.
    pub async fn connection(self) -> io::Result<Box<dyn ByteStream>> {
        self.0.await
    }
}
