//! The name of this server in a cluster: constant on one machine.

use sha2::{Digest, Sha256};

const COMPONENT: &str = "kube-apiserver";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Returns `apiserver-` and a part of the hash of the machine's name, as in kube-apiserver.
pub(crate) fn identity() -> String {
    of(&rustix::system::uname().nodename().to_string_lossy())
}

fn of(host: &str) -> String {
    let mut hash = Sha256::new();
    for part in [host, COMPONENT] {
        hash.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let number = digest[..16].iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    // Five bits a letter from the left; the last letter is padded with zeros.
    let letters = (0..26).map(|at| {
        let bits = if at < 25 { number >> (123 - 5 * at) } else { number << 2 };
        char::from(BASE32[(bits & 31) as usize])
    });
    letters.fold("apiserver-".to_owned(), |name, letter| name + letter.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = of("test-host");
        assert_eq!(name, of("test-host"));
        assert_ne!(name, of("test-hosu"));
        assert!(name.len() == 36 && name.starts_with("apiserver-"), "{name}");
        assert_eq!(name, "apiserver-aafqjbvdrjjl2c5nvqhebm6kym");
    }
}
