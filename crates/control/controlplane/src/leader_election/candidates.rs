//! Candidates, and the choice of the best one.

use std::cmp::Ordering;
use std::time::Duration;

use binnacle_fields::FieldRef;
use binnacle_fields::coordination::v1beta1::{LeaseCandidate, LeaseCandidateSpec as Spec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{MicroTime, SemanticVersion, Time};
use binnacle_schema::Value;

/// The strategy that elects the candidate with the oldest emulated version.
pub(super) const OLDEST_EMULATION: &str = "OldestEmulationVersion";
/// The time without renewal after which a candidate is expired.
pub(super) const VALID: Duration = Duration::from_secs(30 * 60);

/// The fields of a LeaseCandidate that an election uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) lease: String,
    pub(super) strategy: String,
    pub(super) pinged: Option<MicroTime>,
    pub(super) renewed: Option<MicroTime>,
    binary: Option<SemanticVersion>,
    emulated: Option<SemanticVersion>,
    created: Option<Time>,
}

impl Candidate {
    pub(super) fn of(object: &Value) -> Self {
        let object = FieldRef::<LeaseCandidate>::root(object);
        let (metadata, spec) = (object.at(LeaseCandidate::METADATA), object.at(LeaseCandidate::SPEC));
        let time = |field| MicroTime::parse(spec.at(field).str()).ok();
        let text = |field| spec.at(field).str();
        Self {
            name: metadata.at(ObjectMeta::NAME).str().to_owned(),
            lease: text(Spec::LEASE_NAME).to_owned(),
            strategy: text(Spec::STRATEGY).to_owned(),
            pinged: time(Spec::PING_TIME),
            renewed: time(Spec::RENEW_TIME),
            binary: version(text(Spec::BINARY_VERSION)),
            emulated: version(text(Spec::EMULATION_VERSION)),
            created: Time::parse(metadata.at(ObjectMeta::CREATION_TIMESTAMP).str()).ok(),
        }
    }

    pub(super) fn is_expired(&self, now: MicroTime) -> bool {
        self.renewed.is_none_or(|renewed| !holds(renewed, VALID, now))
    }

    /// Returns true if the candidate has renewed since its last ping.
    pub(super) fn has_answered(&self) -> bool {
        self.pinged.is_none_or(|pinged| self.renewed.is_some_and(|renewed| renewed >= pinged))
    }

    fn order(&self, other: &Self) -> Ordering {
        or_zero(&self.emulated)
            .cmp(&or_zero(&other.emulated))
            .then_with(|| or_zero(&self.binary).cmp(&or_zero(&other.binary)))
            .then_with(|| self.created.cmp(&other.created))
    }
}

/// Returns true until `duration` after `from` has passed.
pub(super) fn holds(from: MicroTime, duration: Duration, now: MicroTime) -> bool {
    now.as_time().nanos_since(&from.as_time()) < i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Returns the best candidate by the strategy of the oldest emulated version.
pub(super) fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    let fit = candidates.iter().filter(|candidate| candidate.emulated.is_some() && candidate.binary.is_some());
    fit.min_by(|one, other| one.order(other))
}

/// Parses a version, including short ones and those with a leading `v`.
fn version(text: &str) -> Option<SemanticVersion> {
    SemanticVersion::parse_tolerant(text.trim()).ok()
}

fn or_zero(version: &Option<SemanticVersion>) -> SemanticVersion {
    version.clone().unwrap_or_default()
}

/// Returns the strategy of the candidates with the newest binary version.
pub(super) fn strategy(candidates: &[Candidate]) -> Result<&str, String> {
    let Some(mut newest) = candidates.first() else { return Err("no candidates".to_owned()) };
    for candidate in &candidates[1..] {
        match or_zero(&newest.binary).cmp(&or_zero(&candidate.binary)) {
            Ordering::Less => newest = candidate,
            Ordering::Equal if newest.strategy != candidate.strategy => {
                let (one, other) = (binnacle_meta::go_quote(&newest.name), binnacle_meta::go_quote(&candidate.name));
                return Err(format!(
                    "candidates {one}, {other} at same binary version but received differing strategies {}, {}",
                    newest.strategy, candidate.strategy
                ));
            }
            _ => {}
        }
    }
    Ok(&newest.strategy)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    fn candidate(name: &str, emulated: &str, binary: &str, created: &str, strategy: &str) -> Candidate {
        Candidate::of(&value!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"leaseName": "l", "emulationVersion": emulated, "binaryVersion": binary, "strategy": strategy}
        }))
    }

    #[test]
    fn elects_oldest_emulated_version() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let all = [
            candidate("new", "1.36.0", "1.36.0", early, OLDEST_EMULATION),
            candidate("late", "1.35.0", "1.35.0", late, OLDEST_EMULATION),
            candidate("early", "1.35.0", "1.35.0", early, OLDEST_EMULATION),
            candidate("emulating", "1.35.0", "1.36.0", early, OLDEST_EMULATION),
            candidate("unfit", "x", "1.0.0", early, OLDEST_EMULATION),
        ];
        assert_eq!(best(&all).map(|it| it.name.as_str()), Some("early"));
        assert_eq!(best(&all[..1]).map(|it| it.name.as_str()), Some("new"));
        assert_eq!(best(&all[4..]), None);
    }

    #[test]
    fn newest_candidates_determine_strategy() {
        let at = "2026-01-01T00:00:00Z";
        let [old, new, other] = [("a", "1.35.0", "x/y"), ("b", "1.36.0", OLDEST_EMULATION), ("c", "1.36.0", "x/z")]
            .map(|(name, version, strategy)| candidate(name, version, version, at, strategy));
        assert_eq!(strategy(&[old.clone(), new.clone()]), Ok(OLDEST_EMULATION));
        // An invalid version counts as 0.0.0.
        let unread = candidate("d", "x", "", at, "x/y");
        let zero = candidate("e", "0", "0", at, "x/z");
        assert!(strategy(&[unread.clone(), zero]).is_err());
        assert_eq!(strategy(&[unread, new.clone()]), Ok(OLDEST_EMULATION));
        assert_eq!(strategy(&[]), Err("no candidates".to_owned()));
        let why = "candidates \"b\", \"c\" at same binary version but received differing strategies \
                   OldestEmulationVersion, x/z";
        assert_eq!(strategy(&[old, new, other]), Err(why.to_owned()));
    }

    #[test]
    fn detects_expired_and_unresponsive_candidates() {
        let at = |seconds| MicroTime::from_unix(seconds, 0);
        let with = |pinged: Option<i64>, renewed: Option<i64>| Candidate {
            pinged: pinged.map(at),
            renewed: renewed.map(at),
            ..candidate("a", "1.0.0", "1.0.0", "", "")
        };
        for (candidate, now, expired, answered) in [
            (with(None, None), 0, true, true),
            (with(None, Some(0)), 1799, false, true),
            (with(None, Some(0)), 1800, true, true),
            (with(Some(5), Some(4)), 6, false, false),
            (with(Some(5), Some(5)), 6, false, true),
        ] {
            assert_eq!((candidate.is_expired(at(now)), candidate.has_answered()), (expired, answered), "{candidate:?}");
        }
    }
}
