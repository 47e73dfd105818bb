//! All kinds with rules of their own, by group: the one list that makes the set visible.

use crate::{Plain, Strategy};

/// A kind and its rules.
pub(crate) type Entry = (&'static str, &'static dyn Strategy);

/// The rules of a kind of the stored version; kinds without rules of their own are plain.
pub fn strategy(group: &str, kind: &str) -> &'static dyn Strategy {
    let own = GROUPS.iter().find(|(name, _)| *name == group).map_or(&[][..], |(_, kinds)| kinds);
    own.iter().find(|(name, _)| *name == kind).map_or(&Plain, |(_, strategy)| *strategy)
}

const GROUPS: &[(&str, &[Entry])] = &[];
