//! Flags with names similar to an unknown one.

use super::GROUPS;

/// The least similarity, from 0 to 1, for suggesting a flag in place of an unknown one.
const SIMILAR: f64 = 0.8;
/// The longest name that is compared with those of all flags.
const MAX_COMPARED: usize = 100;

/// Returns the flag whose name is the most similar.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    let known = GROUPS.iter().flat_map(|group| group.flags).map(|flag| flag.name);
    let scored = known.map(|flag| (strsim::jaro_winkler(flag, name), flag));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= SIMILAR).map(|(_, flag)| flag)
}
