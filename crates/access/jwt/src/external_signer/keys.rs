//! The public keys of a signer, as last fetched.

use std::time::{Duration, Instant};

use crate::PublicKey;
use binnacle_meta::go_quote;

use crate::external_signer::header::MAX_KEY_ID;
use crate::external_signer::messages::{FetchKeysResponse, Timestamp};

/// All public keys of a signer, and when they are to be refreshed.
#[derive(Clone, Debug)]
pub struct KeySet {
    /// In the signer's order.
    pub keys: Vec<VerificationKey>,
    /// The number of times that the keys have changed.
    pub generation: u64,
    pub(crate) refresh_at: Instant,
    /// The time when the signer obtained them, in seconds since the epoch.
    pub(crate) data_at: f64,
}

/// A public key and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationKey {
    pub key: PublicKey,
    /// True for keys that only verify existing tokens: they are excluded from OIDC discovery and sign no new tokens.
    pub hidden: bool,
}

impl KeySet {
    /// Reads the keys in a response, which replace `former`.
    pub(crate) fn read(response: &FetchKeysResponse, former: Option<&Self>) -> Result<Self, String> {
        let Some(hint) = u64::try_from(response.refresh_hint_seconds).ok().filter(|seconds| *seconds > 0) else {
            return Err(format!("found invalid refresh hint ({}s)", response.refresh_hint_seconds));
        };
        if response.keys.is_empty() {
            return Err("found no keys".to_owned());
        }
        let data_at = seconds(response.data_timestamp).map_err(|why| format!("invalid data timestamp: {why}"))?;
        let mut keys = Vec::with_capacity(response.keys.len());
        for received in &response.keys {
            if received.key_id.is_empty() || received.key_id.len() > MAX_KEY_ID {
                return Err(format!("found invalid public key id {}", go_quote(&received.key_id)));
            }
            if received.key.is_empty() {
                return Err("found empty public key".to_owned());
            }
            let key = PublicKey::from_spki(&received.key)
                .map_err(|error| format!("while parsing external public keys: {error}"))?;
            keys.push(VerificationKey {
                key: key.with_id(&received.key_id),
                hidden: received.exclude_from_oidc_discovery,
            });
        }
        let generation = former.map_or(0, |former| former.generation + u64::from(former.keys != keys));
        // The hint is capped, since the clock cannot represent an excessive one.
        let refresh_at = Instant::now() + Duration::from_secs(hint.min(MAX_REFRESH_HINT));
        Ok(Self { keys, generation, refresh_at, data_at })
    }

    /// Returns the keys with this ID, or all for an empty one.
    pub(crate) fn find(&self, id: &str) -> Vec<VerificationKey> {
        self.keys.iter().filter(|key| id.is_empty() || key.key.id() == id).cloned().collect()
    }
}

/// A hundred years, in seconds.
const MAX_REFRESH_HINT: u64 = 100 * 365 * 24 * 3600;

fn seconds(at: Option<Timestamp>) -> Result<f64, String> {
    /// The seconds of the years 1 to 9999.
    const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    let Some(at) = at else { return Err("proto: invalid nil Timestamp".to_owned()) };
    let shown = || format!("seconds:{} nanos:{}", at.seconds, at.nanos);
    match () {
        () if at.seconds < *RANGE.start() => Err(format!("proto: timestamp ({}) before 0001-01-01", shown())),
        () if at.seconds > *RANGE.end() => Err(format!("proto: timestamp ({}) after 9999-12-31", shown())),
        () if !(0..1_000_000_000).contains(&at.nanos) => {
            Err(format!("proto: timestamp ({}) has out-of-range nanos", shown()))
        }
        #[expect(clippy::cast_precision_loss, reason = "exact for all years with four digits")]
        () => Ok(at.seconds as f64 + f64::from(at.nanos) / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_signer::messages::Key;

    fn response(keys: &[(&str, &[u8])]) -> FetchKeysResponse {
        let key = |(id, key): &(&str, &[u8])| Key { key_id: (*id).to_owned(), key: key.to_vec(), ..Key::default() };
        FetchKeysResponse {
            keys: keys.iter().map(key).collect(),
            data_timestamp: Some(Timestamp { seconds: 1, nanos: 500_000_000 }),
            refresh_hint_seconds: 10,
        }
    }

    #[test]
    fn rejects_invalid_responses() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = rcgen::PublicKeyData::subject_public_key_info(&pair);
        let good = response(&[("a", &key)]);
        let long = "k".repeat(MAX_KEY_ID + 1);
        let late = Timestamp { seconds: i64::MAX, nanos: 0 };
        for (response, want) in [
            (FetchKeysResponse { refresh_hint_seconds: 0, ..good.clone() }, "found invalid refresh hint (0s)"),
            (FetchKeysResponse { refresh_hint_seconds: -1, ..good.clone() }, "found invalid refresh hint (-1s)"),
            (response(&[]), "found no keys"),
            (
                FetchKeysResponse { data_timestamp: None, ..good.clone() },
                "invalid data timestamp: proto: invalid nil Timestamp",
            ),
            (
                FetchKeysResponse { data_timestamp: Some(late), ..good.clone() },
                "invalid data timestamp: proto: timestamp (seconds:9223372036854775807 nanos:0) after 9999-12-31",
            ),
            (response(&[("", &key)]), "found invalid public key id \"\""),
            (response(&[(&long, &key)]), &format!("found invalid public key id \"{long}\"")),
            (response(&[("a", b"")]), "found empty public key"),
        ] {
            assert_eq!(KeySet::read(&response, None).unwrap_err(), want);
        }
        let unreadable = KeySet::read(&response(&[("a", b"x")]), None).unwrap_err();
        assert!(unreadable.starts_with("while parsing external public keys: "), "{unreadable}");
    }

    #[test]
    fn generation_counts_changes_of_the_keys() {
        let [one, two] = [(), ()].map(|()| {
            let pair = rcgen::KeyPair::generate().unwrap();
            rcgen::PublicKeyData::subject_public_key_info(&pair)
        });
        let first = KeySet::read(&response(&[("a", &one)]), None).unwrap();
        assert_eq!((first.generation, first.data_at), (0, 1.5));
        let same = KeySet::read(&response(&[("a", &one)]), Some(&first)).unwrap();
        assert_eq!(same.generation, 0);
        // Another key with the same ID counts as a change.
        let other = KeySet::read(&response(&[("a", &two)]), Some(&same)).unwrap();
        assert_eq!(other.generation, 1);
        let mut hidden = response(&[("a", &two), ("b", &one)]);
        hidden.keys[0].exclude_from_oidc_discovery = true;
        let both = KeySet::read(&hidden, Some(&other)).unwrap();
        assert_eq!((both.generation, both.find("").len(), both.find("b").len(), both.find("c").len()), (2, 2, 1, 0));
        assert!(both.find("a")[0].hidden);
    }
}
