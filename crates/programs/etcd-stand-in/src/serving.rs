//! Responses of the stand-in: one request per connection, on a few threads.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::{DOCUMENT, PATH};

/// The number of connections that are served at once.
const THREADS: usize = 4;
/// The time limit for reading a request, and for writing its response.
const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum size of a request's head.
const HEAD: usize = 8 << 10;

/// Serves until the process ends.
pub fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = Arc::new(listener);
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let listener = listener.clone();
            thread::Builder::new().stack_size(128 << 10).spawn(move || accept(&listener))
        })
        .collect::<io::Result<_>>()?;
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

fn accept(listener: &TcpListener) {
    loop {
        match listener.accept() {
            // An error of the client's connection does not matter.
            Ok((stream, _)) => drop(answer(stream)),
            // For example, there is no free descriptor at the moment.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut head, mut read) = ([0; HEAD], 0);
    while !head[..read].windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut head[read..])? {
            0 => break,
            more => read += more,
        }
    }
    let (status, body) = respond(&head[..read]);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the status and body for the head of a request.
fn respond(head: &[u8]) -> (&'static str, &'static str) {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if method != Some("GET") {
        return ("405 Method Not Allowed", "");
    }
    match target.split('?').next().unwrap_or_default() {
        "/health" => ("200 OK", "{\"health\":\"true\",\"reason\":\"\"}"),
        "/livez" | "/readyz" => ("200 OK", "ok\n"),
        PATH => ("200 OK", DOCUMENT),
        _ => ("404 Not Found", "404 page not found\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_requests_like_etcd() {
        for (head, status, body) in [
            ("GET /health HTTP/1.1\r\n\r\n", "200 OK", "{\"health\":\"true\",\"reason\":\"\"}"),
            ("GET /health?serializable=true HTTP/1.1\r\n", "200 OK", "{\"health\":\"true\",\"reason\":\"\"}"),
            ("GET /binnacle/etcd-stand-in HTTP/1.1\r\n", "200 OK", DOCUMENT),
            ("GET /v2/keys HTTP/1.1\r\n", "404 Not Found", "404 page not found\n"),
            // The preface of a gRPC client.
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "405 Method Not Allowed", ""),
            ("", "405 Method Not Allowed", ""),
        ] {
            assert_eq!(respond(head.as_bytes()), (status, body), "{head:?}");
        }
    }
}
