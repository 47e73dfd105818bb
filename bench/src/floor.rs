//! The cost of delivered events below all that a server of this kind does: bytes are copied into TLS records, sealed, and
//! written to sockets of this machine in large pieces. There are no tasks, streams or objects.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use binnacle_testkit::Authority;
use binnacle_testkit::https::Handshake;
use rustls::crypto::ring::{cipher_suite::TLS13_AES_128_GCM_SHA256, default_provider};
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::process::own_thread_seconds;

/// An event of a pod of the bench as a frame of HTTP/2.
const EVENT: usize = 9 + 4_950;
/// As many as leave in one write: of a server that has time, and of one that has none, which was counted.
const TOGETHER: [usize; 2] = [6, 22];
const CONNECTIONS: usize = 8;
/// Events to each connection.
const EVENTS: f64 = 50_000.0;

/// Prints the CPU microseconds per event.
pub(crate) fn run(scale: f64) {
    let authority = Authority::make();
    for together in TOGETHER {
        let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(&authority)).collect();
        let rounds = ((EVENTS * scale) as usize / together).max(1);
        let began = own_thread_seconds();
        for _ in 0..rounds {
            connections.iter_mut().for_each(|(tls, tcp)| write(together, tls, tcp));
        }
        let events = rounds * CONNECTIONS * together;
        let each = (own_thread_seconds() - began) * 1e6 / events as f64;
        println!("{events} events of {EVENT} bytes, {together} in a write: {each:.2} us of CPU each");
    }
}

/// Writes events to a connection.
fn write(together: usize, tls: &mut ServerConnection, tcp: &mut TcpStream) {
    for _ in 0..together {
        tls.writer().write_all(&[b'x'; EVENT]).unwrap();
    }
    while tls.wants_write() {
        tls.write_tls(tcp).unwrap();
    }
}

/// Connects both ends. The client reads what comes, in a thread of its own, without looking at it.
fn connect(authority: &Authority) -> (ServerConnection, TcpStream) {
    let (certificate, key) = authority.issue("server");
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let mut provider = default_provider();
    provider.cipher_suites = vec![TLS13_AES_128_GCM_SHA256];
    let config = ServerConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let trusted = Handshake::new(std::fs::read_to_string(authority.ca()).unwrap()).config();
    thread::spawn(move || {
        let mut tcp = TcpStream::connect(address).unwrap();
        let mut tls = ClientConnection::new(Arc::new(trusted), ServerName::try_from("localhost").unwrap()).unwrap();
        tls.complete_io(&mut tcp).unwrap();
        let mut read = vec![0; 256 << 10];
        while tcp.read(&mut read).is_ok_and(|count| count > 0) {}
    });
    let mut tcp = listener.accept().unwrap().0;
    let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp).unwrap();
    }
    tls.set_buffer_limit(None);
    (tls, tcp)
}
