//! An external signer of service account tokens for tests: `externaljwt/v1` over gRPC on a unix socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

use crate::grpc::{Answer, GrpcServer, fields, message, number};

/// A running signer, until dropped.
pub struct TokenSigner {
    state: Arc<Mutex<SignerState>>,
    fetches: Arc<AtomicUsize>,
    _server: GrpcServer,
}

/// A signer's answers.
#[derive(Clone, Debug)]
pub struct SignerState {
    /// The last key that is not hidden signs.
    pub keys: Vec<SignerKey>,
    pub refresh_hint: u64,
    /// The longest lifetime of tokens in seconds.
    pub max_expiration: u64,
    /// The header, if not the correct one.
    pub header: Option<String>,
    /// The gRPC code with which it refuses to sign.
    pub refuses: Option<u8>,
}

/// A key of a signer.
#[derive(Clone, Debug)]
pub struct SignerKey {
    pub id: String,
    pub hidden: bool,
    pkcs8: Vec<u8>,
    spki: Vec<u8>,
}

impl SignerKey {
    /// Makes a key on the curve P-256.
    ///
    /// # Panics
    /// Panics if no key can be made.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let pair = rcgen::KeyPair::generate().unwrap();
        let spki = rcgen::PublicKeyData::subject_public_key_info(&pair);
        Self { id: id.to_owned(), hidden: false, pkcs8: pair.serialize_der(), spki }
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let random = ring::rand::SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.pkcs8, &random).unwrap();
        pair.sign(&random, bytes).unwrap().as_ref().to_vec()
    }
}

impl TokenSigner {
    /// Listens on a socket at this path, with one key, `key-1`.
    ///
    /// # Panics
    /// Panics if the socket cannot be made.
    #[must_use]
    pub fn start(socket: &Path) -> Self {
        let state = SignerState {
            keys: vec![SignerKey::new("key-1")],
            refresh_hint: 3600,
            max_expiration: 7200,
            header: None,
            refuses: None,
        };
        let (state, fetches) = (Arc::new(Mutex::new(state)), Arc::new(AtomicUsize::new(0)));
        let (answering, counting) = (state.clone(), fetches.clone());
        let server = GrpcServer::start(socket, move |method, body| {
            if method == "FetchKeys" {
                counting.fetch_add(1, Ordering::SeqCst);
            }
            answering.lock().answer(method, body)
        });
        Self { state, fetches, _server: server }
    }

    /// Changes its answers.
    pub fn change(&self, change: impl FnOnce(&mut SignerState)) {
        change(&mut self.state.lock());
    }

    /// Returns the number of requests for its keys.
    #[must_use]
    pub fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }
}

impl SignerState {
    fn answer(&self, method: &str, body: &[u8]) -> Answer {
        match method {
            "FetchKeys" => {
                let mut answer = Vec::new();
                for key in &self.keys {
                    let mut one = message(&[(1, key.id.as_bytes()), (2, &key.spki)]);
                    if key.hidden {
                        one.extend(number(3, 1));
                    }
                    answer.extend(message(&[(1, &one)]));
                }
                answer.extend(message(&[(2, &number(1, 1_700_000_000))]));
                answer.extend(number(3, self.refresh_hint));
                Ok(answer)
            }
            "Metadata" => Ok(number(1, self.max_expiration)),
            "Sign" => {
                if let Some(code) = self.refuses {
                    return Err((code, "not today".to_owned()));
                }
                let claims =
                    fields(body).into_iter().find(|(tag, _)| *tag == 1).map_or(Vec::new(), |(_, claims)| claims);
                let key = self.keys.iter().rfind(|key| !key.hidden).unwrap();
                let header = self
                    .header
                    .clone()
                    .unwrap_or_else(|| format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, key.id));
                let header = BASE64_URL_SAFE_NO_PAD.encode(header);
                let signature = key.sign(&[header.as_bytes(), b".", &claims].concat());
                Ok(message(&[(1, header.as_bytes()), (2, BASE64_URL_SAFE_NO_PAD.encode(signature).as_bytes())]))
            }
            _ => Err((12, "no such method".to_owned())),
        }
    }
}
