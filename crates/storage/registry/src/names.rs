//! `generateName`: a prefix and five characters that are easy to distinguish and cannot form words.

use binnacle_meta::Text;
use uuid::Uuid;

/// Prefixes are truncated so that the name fits a DNS label.
const MAX_PREFIX: usize = 58;
const SUFFIX: usize = 5;
/// No vowels, no `0`, `1`, `3`: apimachinery's `rand.String`.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The number of attempts to create an object whose generated name exists (KEP-4420).
pub(crate) const ATTEMPTS: usize = 8;

/// Generates a name from a `generateName`.
pub fn generate(prefix: &str) -> Text {
    let mut end = prefix.len().min(MAX_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let random = Uuid::new_v4().as_u128();
    let suffix: String =
        (0..SUFFIX).map(|i| char::from(ALPHABET[(random >> (i * 16)) as u16 as usize % ALPHABET.len()])).collect();
    Text::from(format!("{}{suffix}", &prefix[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_name_fits_dns_label() {
        assert_eq!(generate("web-").len(), 9);
        assert_eq!(generate(&"x".repeat(100)).len(), 63);
        assert!(generate("é".repeat(40).as_str()).len() <= 63);
        assert_ne!(generate("a"), generate("a"));
    }
}
