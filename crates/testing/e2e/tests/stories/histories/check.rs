//! Checks that all responses are consistent with one sequence of events.
//!
//! The order of resourceVersions is the order in which a single correct server would have executed the writes. Every
//! write that took effect is an event of the watches, and all responses must be consistent with that sequence and with
//! real time: an operation that ended before another one began precedes it.

use std::collections::HashMap;
use std::time::Instant;

use super::clients::{Action, HistoryEvent, LAST, ObjectVersions, Operation, Outcome, RequestedState};
use super::subjects::{is_selected, once_deleted};

/// `events` begins with the events up to `from`, which every client has seen. `recreates` is true for kinds that an
/// update may create: a write based on a deleted version creates the object again. Returns the number of acknowledged
/// deletions.
pub(super) fn check(history: &[Operation], events: &[HistoryEvent], from: u64, recreates: bool) -> usize {
    assert!(events.is_sorted_by(|a, b| a.version < b.version), "events come in order, and once");
    nothing_has_two_owners(events);
    let row = Row::new(events);
    nothing_is_invented(history, events, from, &row);
    let seen = writes_happened_once_and_at_their_base(history, events, from, &row, recreates);
    for operation in history {
        match &operation.action {
            Action::Write { outcome: Outcome::Done(version), .. } => seen.allows(*version, operation),
            Action::List { asked, selected, version, found } => {
                match asked {
                    RequestedState::Consistent | RequestedState::Pages => seen.allows(*version, operation),
                    RequestedState::NotOlderThan(least) => assert!(version >= least, "{operation:?} is too old"),
                    RequestedState::Exact(exact) => assert_eq!(version, exact, "{operation:?} is of another version"),
                    RequestedState::Any => {}
                }
                assert_eq!(*found, row.at(*version, *selected), "{operation:?} is not what was told up to there");
            }
            Action::Stream { version, found, events: after } => {
                seen.allows(*version, operation);
                assert_eq!(*found, row.at(*version, false), "a watch begins with what was told up to {version}");
                let from = events.partition_point(|event| event.version <= *version);
                assert_eq!(*after, events[from..from + after.len()], "a watch goes on without a gap");
            }
            Action::Get { key, asked, found } => row.allows(key, *asked, found.as_ref(), &seen, operation),
            Action::Delete { key, base, outcome: Outcome::Done(_) } => {
                let at = row.next(key, *base).map_or(0, |(at, _)| at);
                seen.allows(at, operation);
            }
            Action::Release { key, base, outcome: Outcome::Done(_) } => {
                seen.allows(row.gone_after(key, *base, operation), operation);
            }
            Action::Write { .. } | Action::Delete { .. } | Action::Release { .. } => {}
        }
    }
    seen.deletions
}

/// Returns the objects at a version, according to the events.
pub(super) fn state_at(events: &[HistoryEvent], version: u64) -> ObjectVersions {
    Row::new(events).at(version, false)
}

/// Returns the events of a watch with a selector: objects enter the selection, change in it, and leave it.
pub(super) fn shaded(events: &[HistoryEvent]) -> Vec<HistoryEvent> {
    let mut inside: HashMap<&str, bool> = HashMap::new();
    let seen = |event: &HistoryEvent| event.value.as_deref().is_some_and(is_selected);
    let selected = events.iter().filter_map(|event| {
        let was = inside.insert(&event.key, seen(event)).unwrap_or(false);
        let leaves = || HistoryEvent { value: None, claims: Vec::new(), ..event.clone() };
        (was || seen(event)).then(|| if seen(event) { event.clone() } else { leaves() })
    });
    selected.collect()
}

/// Checks that an address belongs to one object at a time, from the event that adds it to the event that removes it.
fn nothing_has_two_owners(events: &[HistoryEvent]) {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for event in events {
        owners.retain(|_, owner| *owner != event.key);
        for claim in &event.claims {
            let other = owners.insert(claim, &event.key);
            assert_eq!(other, None, "{claim} belongs to two objects at {event:?}");
        }
    }
}

/// Checks that every event is the effect of an operation that did not fail.
fn nothing_is_invented(history: &[Operation], events: &[HistoryEvent], from: u64, row: &Row<'_>) {
    let (mut values, mut deletions) = (HashMap::new(), HashMap::new());
    for operation in history {
        match &operation.action {
            Action::Write { value, outcome, .. } if *outcome != Outcome::Refused => {
                assert!(values.insert(value.as_str(), operation).is_none(), "values are written once");
            }
            Action::Delete { key, base, outcome } | Action::Release { key, base, outcome }
                if *outcome != Outcome::Refused =>
            {
                let (done, possible): &mut (u32, u32) = deletions.entry((key.as_str(), *base)).or_default();
                // Several clients that concurrently remove the last finalizer may all succeed, as with kube-apiserver.
                let alone = matches!(operation.action, Action::Delete { .. });
                *done += u32::from(alone && *outcome != Outcome::Unknown);
                *possible += 1;
            }
            _ => {}
        }
    }
    for event in events.iter().filter(|event| event.version > from && !event.key.starts_with(LAST)) {
        let before = row.before(&event.key, event.version).and_then(|(version, value)| Some((version, value?)));
        match &event.value {
            Some(value) if values.contains_key(value.as_str()) => {}
            value => {
                let deleted = before.and_then(|(_, before)| once_deleted(before));
                let about = || writes_of(history, &event.key).join("\n");
                assert!(value.is_none() || *value == deleted, "nobody wrote {event:?}\n{}", about());
                let base = before.map_or(0, |(version, _)| version);
                let (done, possible) = deletions.get(&(event.key.as_str(), base)).copied().unwrap_or_default();
                // kube-apiserver deletes what it has released by its uid alone, so a change in between is lost.
                let precedes =
                    |released: u64| row.before(&event.key, base).is_some_and(|(version, _)| version == released);
                let released_before = |operation: &Operation| match &operation.action {
                    Action::Release { key, base, outcome } => {
                        *key == event.key && *outcome != Outcome::Refused && precedes(*base)
                    }
                    _ => false,
                };
                let is_lost = || super::has_another_server() && history.iter().any(released_before);
                assert!(possible > 0 || is_lost(), "nobody deleted {event:?}, which was at {base}\n{}", about());
                assert!(done <= 1, "{done} were told that they deleted what {event:?} tells\n{}", about());
            }
        }
    }
}

/// Returns the writes and deletions of a key, for a failure's message.
fn writes_of(history: &[Operation], of: &str) -> Vec<String> {
    let of_key = history.iter().filter(|operation| match &operation.action {
        Action::Write { key, .. } | Action::Delete { key, .. } | Action::Release { key, .. } => key == of,
        Action::Get { .. } | Action::List { .. } | Action::Stream { .. } => false,
    });
    of_key.map(|operation| format!("{operation:?}")).collect()
}

/// Checks each write against the events. Returns the versions that clients have seen at each time.
fn writes_happened_once_and_at_their_base<'a>(
    history: &'a [Operation],
    events: &'a [HistoryEvent],
    from: u64,
    row: &Row<'a>,
    recreates: bool,
) -> SeenVersions<'a> {
    let written: HashMap<&str, &HistoryEvent> =
        events.iter().filter_map(|event| Some((event.value.as_deref()?, event))).collect();
    let mut seen = SeenVersions { from, ..SeenVersions::default() };
    for operation in history {
        let (key, base, at) = match &operation.action {
            Action::Write { key, base, value, outcome } => {
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
            Action::Delete { key, base, outcome: Outcome::Done(_) } => {
                seen.deletions += 1;
                (key, *base, row.followed_by(key, *base, row.value(key, *base).and_then(once_deleted), operation))
            }
            // Others may have changed and deleted the object meanwhile. It is gone, as requested; kube-apiserver
            // responds the same.
            Action::Release { key, base, outcome: Outcome::Done(_) } => {
                seen.add(operation, key, row.gone_after(key, *base, operation));
                continue;
            }
            Action::Get { key, found: Some((version, _)), .. } => {
                seen.add(operation, key, *version);
                continue;
            }
            // A client that has seen a list has seen the newest event of every key in it.
            Action::List { version, .. } | Action::Stream { version, .. } => {
                seen.add_all(operation, *version, row);
                continue;
            }
            Action::Get { .. } | Action::Delete { .. } | Action::Release { .. } => continue,
        };
        let there = row.version_before(key, at);
        let fits = there == base || recreates && there == 0 && matches!(operation.action, Action::Write { .. });
        assert!(fits, "{operation:?} happened at {at}, when the key was at {there} and not at its base");
        seen.add(operation, key, at);
    }
    seen.sort();
    seen
}

/// The events of each key, in order.
struct Row<'a>(HashMap<&'a str, Vec<(u64, Option<&'a str>)>>);

impl<'a> Row<'a> {
    fn new(events: &'a [HistoryEvent]) -> Self {
        let mut keys: HashMap<_, Vec<_>> = HashMap::new();
        for event in events {
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
    fn at(&self, version: u64, selected: bool) -> ObjectVersions {
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
        seen: &SeenVersions<'_>,
        operation: &Operation,
    ) {
        // The read may return the newest event of this key that was seen before the read began, or any later one.
        let oldest = match asked {
            RequestedState::Consistent | RequestedState::Pages | RequestedState::Exact(_) => {
                let before = self.up_to(key, seen.from).map_or(0, |(at, _)| at);
                seen.of(key, operation.began).max(before)
            }
            RequestedState::Any => 0,
            RequestedState::NotOlderThan(version) => self.up_to(key, version).map_or(0, |(at, _)| at),
        };
        let row = self.of(key);
        let possible = match found {
            Some((version, value)) => {
                let at = row.binary_search_by_key(version, |(at, _)| *at);
                *version >= oldest && at.is_ok_and(|at| row[at].1 == Some(value.as_str()))
            }
            None => oldest == 0 || row.iter().any(|(at, value)| *at >= oldest && value.is_none()),
        };
        assert!(possible, "{operation:?} could not be seen any more after {oldest}");
    }
}

/// The versions that clients have seen at each time, in total and by key.
#[derive(Default)]
struct SeenVersions<'a> {
    /// Seen by all from the beginning.
    from: u64,
    all: VersionLog,
    keys: HashMap<&'a str, VersionLog>,
    deletions: usize,
}

impl<'a> SeenVersions<'a> {
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
        self.keys.values_mut().for_each(VersionLog::sort);
    }

    fn of(&self, key: &str, time: Instant) -> u64 {
        self.keys.get(key).map_or(0, |seen| seen.before(time))
    }

    /// Panics unless an operation could return a version.
    fn allows(&self, version: u64, operation: &Operation) {
        let oldest = self.all.before(operation.began).max(self.from);
        assert!(oldest <= version, "{operation:?} is older than {oldest}, which was answered before");
    }
}

/// Versions in answers, with their times.
#[derive(Default)]
struct VersionLog(Vec<(Instant, u64)>);

impl VersionLog {
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
