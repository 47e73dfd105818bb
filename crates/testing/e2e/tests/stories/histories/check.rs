//! A check that all answers fit one sequence of events.
//!
//! The order of resourceVersions is the order in which one correct server would have executed the writes: every write
//! that took effect is an event of the watches, and all answers must be consistent with that sequence and with real
//! time: an operation that ended before another began comes before it.

use std::collections::HashMap;
use std::time::Instant;

use super::clients::{Found, LAST, Operation, Outcome, RequestedState, Told, What};
use super::subjects::{is_selected, once_deleted};

/// `told` begins with the events up to `from`, which every client has seen. `recreates` is true for kinds that an
/// update may create: a write based on a deleted version creates the object again. Returns the number of acknowledged
/// deletions.
pub(super) fn check(history: &[Operation], told: &[Told], from: u64, recreates: bool) -> usize {
    assert!(told.is_sorted_by(|a, b| a.version < b.version), "events come in order, and once");
    nothing_has_two_owners(told);
    let row = Row::new(told);
    nothing_is_invented(history, told, from, &row);
    let known = writes_happened_once_and_at_their_base(history, told, from, &row, recreates);
    for operation in history {
        match &operation.what {
            What::Write { outcome: Outcome::Done(version), .. } => known.allows(*version, operation),
            What::List { asked, selected, version, found } => {
                match asked {
                    RequestedState::Consistent | RequestedState::Pages => known.allows(*version, operation),
                    RequestedState::NotOlderThan(least) => assert!(version >= least, "{operation:?} is too old"),
                    RequestedState::Exact(exact) => assert_eq!(version, exact, "{operation:?} is of another version"),
                    RequestedState::Any => {}
                }
                assert_eq!(*found, row.at(*version, *selected), "{operation:?} is not what was told up to there");
            }
            What::Stream { version, found, told: after } => {
                known.allows(*version, operation);
                assert_eq!(*found, row.at(*version, false), "a watch begins with what was told up to {version}");
                let from = told.partition_point(|event| event.version <= *version);
                assert_eq!(*after, told[from..from + after.len()], "a watch goes on without a gap");
            }
            What::Get { key, asked, found } => row.allows(key, *asked, found.as_ref(), &known, operation),
            What::Delete { key, base, outcome: Outcome::Done(_) } => {
                let at = row.next(key, *base).map_or(0, |(at, _)| at);
                known.allows(at, operation);
            }
            What::Release { key, base, outcome: Outcome::Done(_) } => {
                known.allows(row.gone_after(key, *base, operation), operation);
            }
            What::Write { .. } | What::Delete { .. } | What::Release { .. } => {}
        }
    }
    known.deletions
}

/// Returns the objects at a version, according to the events.
pub(super) fn state_at(told: &[Told], version: u64) -> Found {
    Row::new(told).at(version, false)
}

/// Returns the events of a watch with a selector: objects enter the selection, change in it, and leave it.
pub(super) fn shaded(told: &[Told]) -> Vec<Told> {
    let mut inside: HashMap<&str, bool> = HashMap::new();
    let seen = |event: &Told| event.value.as_deref().is_some_and(is_selected);
    let selected = told.iter().filter_map(|event| {
        let was = inside.insert(&event.key, seen(event)).unwrap_or(false);
        let leaves = || Told { value: None, claims: Vec::new(), ..event.clone() };
        (was || seen(event)).then(|| if seen(event) { event.clone() } else { leaves() })
    });
    selected.collect()
}

/// Checks that an address belongs to one object at a time, from the event that adds it to the event that removes it.
fn nothing_has_two_owners(told: &[Told]) {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for event in told {
        owners.retain(|_, owner| *owner != event.key);
        for claim in &event.claims {
            let other = owners.insert(claim, &event.key);
            assert_eq!(other, None, "{claim} belongs to two objects at {event:?}");
        }
    }
}

/// Checks that every event is the effect of an operation that was not answered with a failure.
fn nothing_is_invented(history: &[Operation], told: &[Told], from: u64, row: &Row<'_>) {
    let (mut values, mut deletions) = (HashMap::new(), HashMap::new());
    for operation in history {
        match &operation.what {
            What::Write { value, outcome, .. } if *outcome != Outcome::Refused => {
                assert!(values.insert(value.as_str(), operation).is_none(), "values are written once");
            }
            What::Delete { key, base, outcome } | What::Release { key, base, outcome }
                if *outcome != Outcome::Refused =>
            {
                let (done, possible): &mut (u32, u32) = deletions.entry((key.as_str(), *base)).or_default();
                // Several clients that remove the last finalizer concurrently may all get a success, as in Go.
                let alone = matches!(operation.what, What::Delete { .. });
                *done += u32::from(alone && *outcome != Outcome::Unknown);
                *possible += 1;
            }
            _ => {}
        }
    }
    for event in told.iter().filter(|event| event.version > from && !event.key.starts_with(LAST)) {
        let before = row.before(&event.key, event.version).and_then(|(version, value)| Some((version, value?)));
        match &event.value {
            Some(value) if values.contains_key(value.as_str()) => {}
            value => {
                let deleted = before.and_then(|(_, before)| once_deleted(before));
                let about = || writes_of(history, &event.key).join("\n");
                assert!(value.is_none() || *value == deleted, "nobody wrote {event:?}\n{}", about());
                let base = before.map_or(0, |(version, _)| version);
                let (done, possible) = deletions.get(&(event.key.as_str(), base)).copied().unwrap_or_default();
                assert!(possible > 0, "nobody deleted {event:?}, which was at {base}\n{}", about());
                assert!(done <= 1, "{done} were told that they deleted what {event:?} tells\n{}", about());
            }
        }
    }
}

/// Returns the writes and deletions of a key, for a failure's message.
fn writes_of(history: &[Operation], of: &str) -> Vec<String> {
    let of_key = history.iter().filter(|operation| match &operation.what {
        What::Write { key, .. } | What::Delete { key, .. } | What::Release { key, .. } => key == of,
        What::Get { .. } | What::List { .. } | What::Stream { .. } => false,
    });
    of_key.map(|operation| format!("{operation:?}")).collect()
}

/// Checks each write against the events. Returns the versions that clients have seen at each time.
fn writes_happened_once_and_at_their_base<'a>(
    history: &'a [Operation],
    told: &'a [Told],
    from: u64,
    row: &Row<'a>,
    recreates: bool,
) -> Knowledge<'a> {
    let written: HashMap<&str, &Told> =
        told.iter().filter_map(|event| Some((event.value.as_deref()?, event))).collect();
    let mut known = Knowledge { from, ..Knowledge::default() };
    for operation in history {
        let (key, base, at) = match &operation.what {
            What::Write { key, base, value, outcome } => {
                let event = written.get(value.as_str());
                let at = event.map(|event| event.version);
                match outcome {
                    Outcome::Done(version) => assert_eq!(at, Some(*version), "{operation:?} was told otherwise"),
                    Outcome::Refused => assert!(event.is_none(), "{operation:?} was refused and is told by {event:?}"),
                    Outcome::Unknown => {}
                }
                let Some(event) = event else { continue };
                assert_eq!(&event.key, key);
                (key, *base, event.version)
            }
            What::Delete { key, base, outcome: Outcome::Done(_) } => {
                known.deletions += 1;
                (key, *base, row.followed_by(key, *base, row.value(key, *base).and_then(once_deleted), operation))
            }
            // Others may have changed and deleted the object meanwhile: it is gone, as was asked for. Go says so as well.
            What::Release { key, base, outcome: Outcome::Done(_) } => {
                known.add(operation, key, row.gone_after(key, *base, operation));
                continue;
            }
            What::Get { key, found: Some((version, _)), .. } => {
                known.add(operation, key, *version);
                continue;
            }
            // A client that has seen a list has seen the newest event of every key in it.
            What::List { version, .. } | What::Stream { version, .. } => {
                known.add_all(operation, *version, row);
                continue;
            }
            What::Get { .. } | What::Delete { .. } | What::Release { .. } => continue,
        };
        let there = row.version_before(key, at);
        let fits = there == base || recreates && there == 0 && matches!(operation.what, What::Write { .. });
        assert!(fits, "{operation:?} happened at {at}, when the key was at {there} and not at its base");
        known.add(operation, key, at);
    }
    known.sort();
    known
}

/// The events of each key, in order.
struct Row<'a>(HashMap<&'a str, Vec<(u64, Option<&'a str>)>>);

impl<'a> Row<'a> {
    fn new(told: &'a [Told]) -> Self {
        let mut keys: HashMap<_, Vec<_>> = HashMap::new();
        for event in told {
            keys.entry(event.key.as_str()).or_default().push((event.version, event.value.as_deref()));
        }
        Self(keys)
    }

    fn of(&self, key: &str) -> &[(u64, Option<&'a str>)] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn before(&self, key: &str, version: u64) -> Option<(u64, Option<&'a str>)> {
        let row = self.of(key);
        row[..row.partition_point(|(at, _)| *at < version)].last().copied()
    }

    /// Returns the newest event of a key up to a version.
    fn up_to(&self, key: &str, version: u64) -> Option<(u64, Option<&'a str>)> {
        let row = self.of(key);
        row[..row.partition_point(|(at, _)| *at <= version)].last().copied()
    }

    fn next(&self, key: &str, version: u64) -> Option<(u64, Option<&'a str>)> {
        self.of(key).iter().find(|(at, _)| *at > version).copied()
    }

    /// Returns the value of a key that was written at exactly this version.
    fn value(&self, key: &str, version: u64) -> Option<&'a str> {
        self.up_to(key, version).filter(|(at, _)| *at == version)?.1
    }

    /// Returns the version of the next event after a version, which must have this value.
    fn followed_by(&self, key: &str, version: u64, value: Option<String>, operation: &Operation) -> u64 {
        match self.next(key, version) {
            Some((at, next)) if next == value.as_deref() => at,
            next => panic!("{operation:?} is not told, but {next:?}"),
        }
    }

    /// The version of the first deletion after a version.
    fn gone_after(&self, key: &str, version: u64, operation: &Operation) -> u64 {
        let gone = self.of(key).iter().find(|(at, value)| *at > version && value.is_none());
        gone.unwrap_or_else(|| panic!("{operation:?}: the object is not deleted")).0
    }

    /// The version that a key had just before another; 0 when it was not there.
    fn version_before(&self, key: &str, version: u64) -> u64 {
        self.before(key, version).map_or(0, |(at, value)| if value.is_some() { at } else { 0 })
    }

    /// Returns the objects at a version.
    fn at(&self, version: u64, selected: bool) -> Found {
        let state = |key: &str| {
            let (at, value) = self.up_to(key, version)?;
            Some((at, value.filter(|value| !selected || is_selected(value))?.to_owned()))
        };
        self.0.keys().filter_map(|key| Some(((*key).to_owned(), state(key)?))).collect()
    }

    /// Panics unless a read of a key could return this.
    fn allows(
        &self,
        key: &str,
        asked: RequestedState,
        found: Option<&(u64, String)>,
        known: &Knowledge<'_>,
        operation: &Operation,
    ) {
        // The read may return the newest event of this key that was seen before the read began, or any later one.
        let floor = match asked {
            RequestedState::Consistent | RequestedState::Pages | RequestedState::Exact(_) => {
                let before = self.up_to(key, known.from).map_or(0, |(at, _)| at);
                known.of(key, operation.began).max(before)
            }
            RequestedState::Any => 0,
            RequestedState::NotOlderThan(version) => self.up_to(key, version).map_or(0, |(at, _)| at),
        };
        let row = self.of(key);
        let possible = match found {
            Some((version, value)) => {
                let at = row.binary_search_by_key(version, |(at, _)| *at);
                *version >= floor && at.is_ok_and(|at| row[at].1 == Some(value.as_str()))
            }
            None => floor == 0 || row.iter().any(|(at, value)| *at >= floor && value.is_none()),
        };
        assert!(possible, "{operation:?} could not be seen any more after {floor}");
    }
}

/// The versions that clients have seen at each time, in total and by key.
#[derive(Default)]
struct Knowledge<'a> {
    /// Seen by all from the beginning.
    from: u64,
    all: Known,
    keys: HashMap<&'a str, Known>,
    deletions: usize,
}

impl<'a> Knowledge<'a> {
    fn add(&mut self, operation: &Operation, key: &'a str, version: u64) {
        let Some(ended) = operation.ended else { return };
        self.all.add(ended, version);
        self.keys.entry(key).or_default().add(ended, version);
    }

    fn add_all(&mut self, operation: &Operation, version: u64, row: &Row<'a>) {
        let Some(ended) = operation.ended else { return };
        self.all.add(ended, version);
        for key in row.0.keys() {
            if let Some((at, _)) = row.up_to(key, version) {
                self.keys.entry(key).or_default().add(ended, at);
            }
        }
    }

    fn sort(&mut self) {
        self.all.sort();
        self.keys.values_mut().for_each(Known::sort);
    }

    fn of(&self, key: &str, time: Instant) -> u64 {
        self.keys.get(key).map_or(0, |known| known.before(time))
    }

    /// Panics unless an operation could return a version.
    fn allows(&self, version: u64, operation: &Operation) {
        let floor = self.all.before(operation.began).max(self.from);
        assert!(floor <= version, "{operation:?} is older than {floor}, which was answered before");
    }
}

/// Versions in answers, with their times.
#[derive(Default)]
struct Known(Vec<(Instant, u64)>);

impl Known {
    fn add(&mut self, ended: Instant, version: u64) {
        self.0.push((ended, version));
    }

    /// Sorts by time, and gives each the newest version up to then.
    fn sort(&mut self) {
        self.0.sort();
        let mut newest = 0;
        for (_, version) in &mut self.0 {
            newest = newest.max(*version);
            *version = newest;
        }
    }

    /// Returns the newest version that was answered before a time.
    fn before(&self, time: Instant) -> u64 {
        let earlier = self.0.partition_point(|(ended, _)| *ended < time);
        self.0[..earlier].last().map_or(0, |(_, version)| *version)
    }
}
