//! ECDSA with the curves of JSON web tokens: keys from their numbers, and signatures as two numbers of fixed length.

#[cfg(feature = "aws-lc")]
#[path = "ecdsa/aws_lc.rs"]
mod implementation;
#[cfg(not(feature = "aws-lc"))]
#[path = "ecdsa/ring.rs"]
mod implementation;

pub use implementation::{EcdsaKey, P521_SHA256_ASN1, verify};

/// A curve. Its signatures are over SHA-256, SHA-384 and SHA-512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
    P521,
}

/// Why numbers are not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKey {
    /// The point is omitted, which only keys of P-521 may do: the providers compute no other.
    MissingPoint,
    /// The numbers are not of this curve, or not of one key.
    Mismatch,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys whose scalar is 1: the point is the generator of the curve.
    const GENERATORS: [(Curve, usize, &str); 3] = [
        (
            Curve::P256,
            32,
            "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        ),
        (
            Curve::P384,
            48,
            "04aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab73617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
        ),
        (
            Curve::P521,
            66,
            "0400c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
        ),
    ];

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn verifies_only_signatures_of_the_message() {
        for (curve, size, point) in GENERATORS {
            let mut scalar = vec![0; size];
            scalar[size - 1] = 1;
            let point = hex(point);
            let key = EcdsaKey::new(curve, &scalar, Some(&point)).unwrap();
            assert_eq!(key.point(), point, "{curve:?}");
            let signature = key.sign(b"message").unwrap();
            assert_eq!(signature.len(), 2 * size, "{curve:?}");
            assert!(verify(curve, &point, b"message", &signature), "{curve:?}");
            assert!(!verify(curve, &point, b"other", &signature), "{curve:?}");
            assert!(!verify(curve, &point, b"message", &signature[1..]), "{curve:?}");
            assert!(!verify(curve, &point[1..], b"message", &signature), "{curve:?}");
        }
    }

    #[test]
    fn computes_only_the_point_of_p521() {
        let (curve, size, point) = GENERATORS[2];
        let mut scalar = vec![0; size];
        scalar[size - 1] = 1;
        assert_eq!(EcdsaKey::new(curve, &scalar, None).unwrap().point(), hex(point));
        let error = |curve, scalar: &[u8]| EcdsaKey::new(curve, scalar, None).err();
        assert_eq!(error(curve, &[0; 66]), Some(InvalidKey::Mismatch));
        assert_eq!(error(curve, &[1; 65]), Some(InvalidKey::Mismatch));
        assert_eq!(error(Curve::P256, &[1; 32]), Some(InvalidKey::MissingPoint));
        assert_eq!(error(Curve::P384, &[1; 48]), Some(InvalidKey::MissingPoint));
    }
}
