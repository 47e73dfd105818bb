//! HTTP CONNECT: requests a connection from a proxy, which then carries bytes in both directions.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Tunnel;

/// The maximum size of a response head. The head is read byte by byte, so a larger one would take noticeable time.
const MAX_HEAD: usize = 64 << 10;

/// Requests a connection to `address`. Reads only the head of the response, because later bytes belong to the tunnel.
pub(crate) async fn tunnel(stream: &mut Box<dyn Tunnel>, proxy: &str, address: &str) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("reading HTTP response from CONNECT to {address} via proxy {proxy} failed: {error}")
    };
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| failed(&error))?;
    stream.flush().await.map_err(|error| failed(&error))?;
    let head = head(stream).await.map_err(|error| failed(&error))?;
    let status = head.split("\r\n").next().unwrap_or_default();
    let mut parts = status.splitn(2, ' ');
    let (version, status) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let code: Option<u16> = status.split(' ').next().and_then(|code| code.parse().ok());
    match code.filter(|_| version.starts_with("HTTP/1.")) {
        Some(200) => Ok(()),
        Some(code) => Err(format!("proxy error from {proxy} while dialing {address}, code {code}: {status}")),
        None => Err(failed(&format!("malformed HTTP response {version:?}"))),
    }
}

/// Reads a response head byte by byte: it is short, and later bytes must remain in the stream.
async fn head(stream: &mut Box<dyn Tunnel>) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the response head of the proxy is too large"));
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(io::Error::new(error.kind(), "unexpected EOF"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn limits_the_size_of_response_heads() {
        for pattern in [&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n"[..], b"\r\n", b"x"] {
            let (near, mut far) = duplex(4096);
            let sender = tokio::spawn(async move {
                let mut sent = 0;
                while far.write_all(pattern).await.is_ok() {
                    sent += pattern.len();
                }
                sent
            });
            let mut near: Box<dyn Tunnel> = Box::new(near);
            let error = tunnel(&mut near, "p", "a:1").await.unwrap_err();
            drop(near);
            assert!(error.starts_with("reading HTTP response from CONNECT to a:1 via proxy p failed: "), "{error}");
            assert!(sender.await.unwrap() <= MAX_HEAD + 8192);
        }
    }

    #[tokio::test]
    async fn accepts_only_status_200() {
        for (answer, want) in [
            ("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nrest", Ok("rest")),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", Err("proxy error from p while dialing a:1, code 403: 403 Forbidden")),
            (
                "SSH-2.0\r\n\r\n",
                Err(
                    "reading HTTP response from CONNECT to a:1 via proxy p failed: malformed HTTP response \"SSH-2.0\"",
                ),
            ),
            ("HTTP/1.1 200", Err("reading HTTP response from CONNECT to a:1 via proxy p failed: unexpected EOF")),
        ] {
            let (near, mut far) = duplex(4096);
            far.write_all(answer.as_bytes()).await.unwrap();
            far.shutdown().await.unwrap();
            let mut near: Box<dyn Tunnel> = Box::new(near);
            let tunnelled = tunnel(&mut near, "p", "a:1").await;
            let mut rest = String::new();
            let got = match &tunnelled {
                Ok(()) => {
                    near.read_to_string(&mut rest).await.unwrap();
                    Ok(rest.as_str())
                }
                Err(why) => Err(why.as_str()),
            };
            assert_eq!(got, want, "{answer}");
            drop(near);
            let mut sent = String::new();
            far.read_to_string(&mut sent).await.unwrap();
            assert_eq!(sent, "CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        }
    }
}
