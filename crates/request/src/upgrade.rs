//! The client's connection as bytes, once an answer 101 has given up HTTP on it.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::BoxFuture;

/// Bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// The right to take the connection over. It is there when the client asked for an upgrade on a connection that can be
/// upgraded (HTTP/1.1).
pub struct Upgrade(BoxFuture<'static, io::Result<Box<dyn ByteStream>>>);

impl Upgrade {
    pub fn new(connection: impl Future<Output = io::Result<Box<dyn ByteStream>>> + Send + 'static) -> Self {
        Self(Box::pin(connection))
    }

    /// Resolves when the head of the answer has been written, which therefore must have been handed on before; fails when
    /// the answer was not 101 or the client has gone.
    pub async fn connection(self) -> io::Result<Box<dyn ByteStream>> {
        self.0.await
    }
}
