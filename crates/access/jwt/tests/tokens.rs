//! Keys written by OpenSSL, and valid, malformed and forged tokens.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_jwt::{
    Algorithm, PrivateKey, PublicKey, Token, TokenError, parse_key_set, private_from_pem, public_from_pem,
};
use serde_json::json;

const KEYS: [(&str, &[u8], &[u8], Algorithm); 4] = [
    ("RSA", include_bytes!("../testdata/rsa.pem"), include_bytes!("../testdata/rsa.pub"), Algorithm::Rs256),
    ("P-256", include_bytes!("../testdata/p256.pem"), include_bytes!("../testdata/p256.pub"), Algorithm::Es256),
    ("P-384", include_bytes!("../testdata/p384.pem"), include_bytes!("../testdata/p384.pub"), Algorithm::Es384),
    ("P-521", include_bytes!("../testdata/p521.pem"), include_bytes!("../testdata/p521.pub"), Algorithm::Es512),
];

fn rsa() -> PrivateKey {
    private_from_pem(KEYS[0].1).unwrap()
}

fn text(json: &serde_json::Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json.to_string())
}

#[test]
fn every_kind_of_key_signs_and_verifies() {
    for (name, private, public, algorithm) in KEYS {
        let key = private_from_pem(private).unwrap();
        let public = public_from_pem(public).unwrap().remove(0);
        assert_eq!(key.public(), &public, "{name}");
        assert_eq!(public_from_pem(private).unwrap()[0], public, "{name}");
        assert_eq!(public.algorithm(), algorithm);
        let token = key.sign(&json!({"sub": "me"})).unwrap();
        let token = Token::parse(&token).unwrap();
        assert_eq!((token.key_id(), token.algorithm()), (public.id(), Some(algorithm)));
        assert_eq!(token.verify(&public).unwrap()["sub"], "me", "{name}");
        // The key set contains the same key.
        let set = json!({"keys": [public.to_jwk(), {"kty": "oct", "k": "AA"}, {"use": "enc", "kty": "RSA"}]});
        assert_eq!(parse_key_set(set.to_string().as_bytes()).unwrap(), [public], "{name}");
        for (other, _, public, _) in KEYS.into_iter().filter(|(other, ..)| *other != name) {
            let public = public_from_pem(public).unwrap().remove(0);
            assert_eq!(token.verify(&public), Err(TokenError), "{name} {other}");
        }
    }
}

#[test]
fn reads_all_pem_encodings() {
    for (pem, public) in [
        (&include_bytes!("../testdata/rsa.pkcs8")[..], KEYS[0].2),
        (include_bytes!("../testdata/p521.pkcs8"), KEYS[3].2),
    ] {
        assert_eq!(*private_from_pem(pem).unwrap().public(), public_from_pem(public).unwrap()[0]);
    }
    let generated = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&generated).unwrap().pem();
    let key = private_from_pem(generated.serialize_pem().as_bytes()).unwrap();
    assert_eq!(public_from_pem(certificate.as_bytes()).unwrap(), [key.public().clone()]);
    let both = [KEYS[0].2, KEYS[1].2].concat();
    assert_eq!(public_from_pem(&both).unwrap().len(), 2);
    assert_eq!(
        public_from_pem(b"nothing").unwrap_err().to_string(),
        "data does not contain any valid RSA or ECDSA public keys"
    );
    assert_eq!(
        private_from_pem(KEYS[0].2).unwrap_err().to_string(),
        "data does not contain a valid RSA or ECDSA private key"
    );
}

/// The ID of a key is the same as kube-apiserver's, so that both servers' tokens have the same key IDs.
#[test]
fn key_ids_equal_those_of_kube_apiserver() {
    for (_, _, pem, _) in KEYS {
        let key = public_from_pem(pem).unwrap().remove(0);
        assert_eq!(key.id().len(), 43);
        let body: String = String::from_utf8_lossy(pem).lines().filter(|line| !line.starts_with('-')).collect();
        let der = base64::prelude::BASE64_STANDARD.decode(body).unwrap();
        let digest = binnacle_crypto::sha256(&der);
        assert_eq!(key.id(), BASE64_URL_SAFE_NO_PAD.encode(digest));
        assert_eq!(PublicKey::from_spki(&der).unwrap(), key);
    }
}

/// Returns another base64 encoding of the same bytes, whose length must not be a multiple of three.
fn other_bits(base64: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    assert!(base64.len() % 4 > 1);
    let (rest, last) = base64.split_at(base64.len() - 1);
    let value = ALPHABET.iter().position(|letter| [*letter] == last.as_bytes()).unwrap();
    format!("{rest}{}", char::from(ALPHABET[value ^ 1]))
}

#[test]
fn rejects_forged_tokens() {
    let key = rsa();
    let public = key.public();
    let good = key.sign(&json!({"sub": "you"})).unwrap();
    let [header, claims, signature] = <[&str; 3]>::try_from(good.split('.').collect::<Vec<_>>()).unwrap();
    let other = text(&json!({"sub": "root"}));
    let none = text(&json!({"alg": "none"}));
    let shared = text(&json!({"alg": "HS256"}));
    // An HMAC with the public key as the shared secret, which a naive verifier would accept.
    let secret = binnacle_crypto::hmac::Key::new(binnacle_crypto::hmac::HMAC_SHA256, KEYS[0].2);
    let mac = binnacle_crypto::hmac::sign(&secret, format!("{shared}.{other}").as_bytes());
    let mac = BASE64_URL_SAFE_NO_PAD.encode(mac.as_ref());
    let critical = text(&json!({"alg": "RS256", "crit": ["b64"], "b64": false}));
    let elliptic = text(&json!({"alg": "ES256"}));
    for (token, want) in [
        (good.clone(), Ok(())),
        // As in go-jose, whitespace and the unused bits of the last character are ignored.
        (format!("{header}.{claims}.{}\n{}", &signature[..9], &signature[9..]), Ok(())),
        (format!("{header}.{claims}.{}", other_bits(signature)), Ok(())),
        (format!("{header}.{}.{signature}", other_bits(claims)), Ok(())),
        (format!("{header}.{other}.{signature}"), Err(Some(TokenError))),
        (format!("{header}.{claims}."), Err(Some(TokenError))),
        (format!("{none}.{other}."), Err(Some(TokenError))),
        (format!("{none}.{other}.{signature}"), Err(Some(TokenError))),
        (format!("{shared}.{other}.{mac}"), Err(Some(TokenError))),
        (format!("{critical}.{claims}.{signature}"), Err(Some(TokenError))),
        (format!("{elliptic}.{claims}.{signature}"), Err(Some(TokenError))),
        (good[..good.len() - 6].to_owned(), Err(Some(TokenError))),
        (format!("{}.{claims}.{signature}", text(&json!({"alg": 5}))), Err(None)),
        (format!("{}.{claims}.{signature}", text(&json!({"alg": "RS256", "kid": 5}))), Err(None)),
        (format!("{header}.{claims}"), Err(None)),
        (format!("{good}.more"), Err(None)),
        (format!("{good}=="), Err(None)),
        (format!(".{good}"), Err(None)),
        ("..".to_owned(), Err(None)),
        (String::new(), Err(None)),
        (format!("{}.{}.", "x".repeat(200 << 10), "x".repeat(200 << 10)), Err(None)),
        (format!("{}.{claims}.{signature}", BASE64_URL_SAFE_NO_PAD.encode("[".repeat(10_000))), Err(None)),
    ] {
        let outcome = match Token::parse(&token) {
            None => Err(None),
            Some(parsed) => parsed.verify(public).map(drop).map_err(Some),
        };
        assert_eq!(outcome, want, "{}", &token[..token.len().min(300)]);
    }
}

#[test]
fn verifies_all_algorithms_of_rsa_keys() {
    let key = rsa();
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.name().starts_with('E')) {
        let token = key.sign_by(algorithm, &json!({})).unwrap();
        let token = Token::parse(&token).unwrap();
        assert_eq!(token.algorithm(), Some(algorithm));
        assert!(token.verify(key.public()).is_ok(), "{algorithm}");
    }
}
