//! The recent events of a resource, from which a watch can continue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::Revision;
use tokio::time::Instant;

use crate::backlog::Backlog;
use crate::entry::Event;

/// The limits of the events in the window.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// The number of events that are kept regardless of their age, if their size allows it.
    pub min_events: usize,
    /// The maximum number of events.
    pub max_events: usize,
    /// How long events are kept at least, within the two other limits.
    pub freshness: Duration,
    /// The maximum memory of all events except the newest. Half of the memory of the resource's objects is allowed if it is
    /// more: a resource with many large objects has as many large events.
    pub max_bytes: usize,
}

impl Default for WindowLimits {
    /// Returns kube-apiserver's values. Events that are dropped early because of their size can still be read from the
    /// store's history.
    fn default() -> Self {
        Self { min_events: 100, max_events: 100 * 1024, freshness: Duration::from_secs(75), max_bytes: 64 << 20 }
    }
}

/// A sequence of events without a gap. Every event has a number, counted since the start of the cache.
#[derive(Debug)]
pub(crate) struct Window {
    events: VecDeque<Arc<Event>>,
    first: u64,
    /// The window has every event after this revision.
    baseline: Revision,
    bytes: usize,
    limits: WindowLimits,
    /// The maximum memory of the events.
    max_bytes: usize,
    /// True if events are kept regardless of their age.
    is_pinned: bool,
    /// The count of dropped events that watchers still hold.
    backlog: Arc<Backlog>,
    has_dropped_events: bool,
}

/// The first number, high enough to leave room for prepended events.
const FIRST: u64 = 1 << 62;

impl Window {
    pub(crate) fn new(limits: WindowLimits, backlog: Arc<Backlog>) -> Self {
        let (events, baseline, max_bytes) = (VecDeque::new(), Revision(0), limits.max_bytes);
        Self {
            events,
            first: FIRST,
            baseline,
            bytes: 0,
            limits,
            max_bytes,
            is_pinned: false,
            backlog,
            has_dropped_events: false,
        }
    }

    /// Returns true if watchers may hold events that the window dropped.
    pub(crate) fn has_dropped_events(&self) -> bool {
        self.has_dropped_events
    }

    /// Records that all mailboxes were searched for dropped events.
    pub(crate) fn clear_dropped(&mut self) {
        self.has_dropped_events = false;
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns the number of the oldest event, or of the next one if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Appends an event and sets its number.
    pub(crate) fn push(&mut self, mut event: Event) -> Arc<Event> {
        event.sequence = self.end();
        let now = event.at;
        self.bytes += event.size();
        let event = Arc::new(event);
        self.events.push_back(Arc::clone(&event));
        self.trim(now);
        event
    }

    /// Prepends the events between `baseline` and the oldest one. Events that had been dropped get their former
    /// numbers.
    pub(crate) fn prepend(&mut self, events: VecDeque<Event>, baseline: Revision) {
        for mut event in events.into_iter().rev() {
            self.first -= 1;
            event.sequence = self.first;
            self.bytes += event.size();
            self.events.push_front(Arc::new(event));
        }
        self.baseline = baseline;
    }

    /// Returns the maximum number of events.
    pub(crate) fn capacity(&self) -> usize {
        self.limits.max_events
    }

    /// Returns the number of events, and of bytes, that may be prepended.
    pub(crate) fn room(&self) -> (usize, usize) {
        let events = self.limits.max_events.saturating_sub(self.events.len());
        (events, self.max_bytes.saturating_sub(self.bytes))
    }

    /// Returns true if there is hardly room for events to be prepended.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let (events, bytes) = self.room();
        events <= self.limits.max_events / 16 || bytes <= self.max_bytes / 16
    }

    /// Sets whether events are kept regardless of their age.
    pub(crate) fn set_pinned(&mut self, is_pinned: bool) {
        self.is_pinned = is_pinned;
    }

    /// Sets the memory of the resource's objects.
    pub(crate) fn set_object_bytes(&mut self, bytes: usize) {
        self.max_bytes = self.limits.max_bytes.max(bytes / 2);
    }

    /// Drops events that are too old or beyond the limits.
    pub(crate) fn trim(&mut self, now: Instant) {
        while let Some(oldest) = self.events.front() {
            let stale = !self.is_pinned && now.saturating_duration_since(oldest.at) > self.limits.freshness;
            let over = self.events.len() > self.limits.max_events
                || (self.events.len() > self.limits.min_events && stale)
                || (self.events.len() > 1 && self.bytes > self.max_bytes);
            if !over {
                break;
            }
            self.bytes -= oldest.size();
            self.baseline = oldest.revision();
            self.first += 1;
            let dropped = self.events.pop_front();
            self.account(dropped);
        }
        // Frees the memory of a burst.
        if self.events.capacity() > 1024 && self.events.capacity() > 4 * self.events.len() {
            self.events.shrink_to(2 * self.events.len());
        }
    }

    /// Counts a dropped event if a watcher holds it.
    fn account(&mut self, dropped: Option<Arc<Event>>) {
        if let Some(event) = dropped.filter(|event| Arc::strong_count(event) > 1) {
            event.charge(&self.backlog);
            self.has_dropped_events = true;
        }
    }

    /// Drops all events, because there is a gap before `baseline`.
    pub(crate) fn reset(&mut self, baseline: Revision) {
        // The gap gets a number of its own, so that no reader can miss it.
        self.first = self.end() + 1;
        while let Some(dropped) = self.events.pop_front() {
            self.account(Some(dropped));
        }
        self.bytes = 0;
        self.baseline = baseline;
    }

    /// Returns the number of the first event after `revision`, or `None` if events after it were dropped.
    pub(crate) fn after(&self, revision: Revision) -> Option<u64> {
        let position = self.events.partition_point(|event| event.revision() <= revision);
        (revision >= self.baseline).then_some(self.first + position as u64)
    }

    /// Copies up to `max` events starting with number `sequence`. Returns `None` if that event was dropped.
    pub(crate) fn read(&self, sequence: u64, max: usize, out: &mut Vec<Arc<Event>>) -> Option<()> {
        let start = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        out.extend(self.events.iter().skip(start).take(max).cloned());
        Some(())
    }

    /// Returns an event by its number.
    pub(crate) fn get(&self, sequence: u64) -> Option<&Arc<Event>> {
        self.events.get(usize::try_from(sequence.checked_sub(self.first)?).ok()?)
    }

    /// Returns the events from number `first`, which must be present, up to a revision.
    pub(crate) fn up_to(&self, first: u64, until: Revision) -> std::collections::vec_deque::Iter<'_, Arc<Event>> {
        let end = self.events.partition_point(|event| event.revision() <= until);
        let start = usize::try_from(first - self.first).unwrap_or(end);
        self.events.range(start.min(end)..end)
    }

    /// Returns the revision of the event before number `first`, which must be present. Without one, returns the
    /// baseline.
    pub(crate) fn change_before(&self, first: u64) -> Revision {
        let before = (first - self.first).checked_sub(1).and_then(|at| self.events.get(usize::try_from(at).ok()?));
        before.map_or(self.baseline, |event| event.revision())
    }

    /// Returns the number of the next event.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns the oldest revision that a watch can start after.
    pub(crate) fn oldest(&self) -> Revision {
        self.baseline
    }

    /// Returns the revision of the newest event, or the baseline if there is none.
    pub(crate) fn newest(&self) -> Revision {
        self.events.back().map_or(self.baseline, |event| event.revision())
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if events will be dropped because of their age alone.
    pub(crate) fn can_shrink(&self) -> bool {
        self.events.len() > self.limits.min_events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(min_events: usize, max_events: usize, max_bytes: usize) -> Window {
        let limits = WindowLimits { min_events, max_events, freshness: Duration::from_secs(75), max_bytes };
        Window::new(limits, Backlog::with_default_limit())
    }

    fn fill(window: &mut Window, revisions: std::ops::Range<u64>, at: Instant) {
        for revision in revisions {
            window.push(Event::new(Revision(revision), None, None, at));
        }
    }

    #[test]
    fn drops_events_beyond_limits() {
        let now = Instant::now();
        let later = now + Duration::from_secs(80);
        for (limits, want_len, want_oldest) in
            [((10, 1000, usize::MAX), 100, 1), ((10, 40, usize::MAX), 40, 61), ((10, 1000, 0), 1, 100)]
        {
            let mut window = window(limits.0, limits.1, limits.2);
            window.reset(Revision(1));
            fill(&mut window, 2..102, now);
            assert_eq!((window.len(), window.oldest()), (want_len, Revision(want_oldest)), "{limits:?}");
            window.trim(later);
            let want = (want_len.min(10), Revision(want_oldest.max(91)));
            assert_eq!((window.len(), window.oldest()), want, "{limits:?} later");
        }
    }

    #[test]
    fn reads_events_but_not_across_gaps() {
        let mut window = window(1, 10, usize::MAX);
        window.reset(Revision(5));
        assert_eq!(window.after(Revision(4)), None);
        assert_eq!(window.after(Revision(5)), Some(window.end()));
        fill(&mut window, 6..26, Instant::now());
        assert_eq!(window.after(Revision(14)), None);
        let Some(start) = window.after(Revision(20)) else { panic!("the window has what is after 20") };
        let mut out = Vec::new();
        assert!(window.read(start, 3, &mut out).is_some());
        assert_eq!(out.iter().map(|e| e.revision().0).collect::<Vec<_>>(), [21, 22, 23]);
        assert!(window.read(0, 3, &mut out).is_none());
        assert!(window.read(window.end(), 3, &mut out).is_some());
        let end = window.end();
        window.reset(Revision(30));
        assert!(window.read(end, 3, &mut out).is_none(), "a reader stepped over a gap");
    }
}
