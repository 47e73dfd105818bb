//! A KMS plugin for tests: the three calls of its API over gRPC on a unix socket. It "encrypts" by flipping bits, which
//! is enough to match plaintexts and ciphertexts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::grpc::{Answer, GrpcServer, fields, message};

/// A running plugin, until dropped.
pub struct KmsPlugin {
    socket: PathBuf,
    state: Arc<State>,
    _server: GrpcServer,
}

struct State {
    key_id: Mutex<String>,
    healthz: Mutex<String>,
    encrypted: AtomicUsize,
    decrypted: AtomicUsize,
}

impl KmsPlugin {
    /// Listens on a socket at this path.
    ///
    /// # Panics
    /// Panics if the socket cannot be made.
    #[must_use]
    pub fn start(socket: &Path) -> Self {
        let state = Arc::new(State {
            key_id: Mutex::new("key-1".to_owned()),
            healthz: Mutex::new("ok".to_owned()),
            encrypted: AtomicUsize::new(0),
            decrypted: AtomicUsize::new(0),
        });
        let answering = Arc::clone(&state);
        let server = GrpcServer::start(socket, move |method, body| answering.answer(method, body));
        Self { socket: socket.to_owned(), state, _server: server }
    }

    /// Returns the endpoint for a configuration file.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Changes the current key.
    pub fn rotate(&self, key_id: &str) {
        *self.state.key_id.lock() = key_id.to_owned();
    }

    /// Sets the health in its status, initially `ok`.
    pub fn health(&self, text: &str) {
        *self.state.healthz.lock() = text.to_owned();
    }

    /// Returns the numbers of its encrypt and decrypt calls.
    #[must_use]
    pub fn asked(&self) -> (usize, usize) {
        (self.state.encrypted.load(Ordering::SeqCst), self.state.decrypted.load(Ordering::SeqCst))
    }
}

impl State {
    fn answer(&self, method: &str, body: &[u8]) -> Answer {
        let fields = fields(body);
        let field = |tag: u64| fields.iter().find(|(t, _)| *t == tag).map_or(&[][..], |(_, value)| value);
        let key_id = self.key_id.lock().clone();
        match method {
            "Status" => {
                let healthz = self.healthz.lock().clone();
                Ok(message(&[(1, b"v2"), (2, healthz.as_bytes()), (3, key_id.as_bytes())]))
            }
            "Encrypt" => {
                self.encrypted.fetch_add(1, Ordering::SeqCst);
                let sealed = [key_id.as_bytes(), b"|", &*turned(field(1))].concat();
                let note = message(&[(1, b"version.kms.example.com"), (2, b"1")]);
                Ok(message(&[(1, &sealed), (2, key_id.as_bytes()), (3, &note)]))
            }
            "Decrypt" => {
                self.decrypted.fetch_add(1, Ordering::SeqCst);
                let ours = [field(3), b"|"].concat();
                match field(1).strip_prefix(&*ours) {
                    Some(sealed) if field(4) == message(&[(1, b"version.kms.example.com"), (2, b"1")]) => {
                        Ok(message(&[(1, &turned(sealed))]))
                    }
                    _ => Err((3, "another key".to_owned())),
                }
            }
            _ => Err((12, "no such method".to_owned())),
        }
    }
}

fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}
