//! The revisions at earlier times, since the start of the server.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_meta::{Status, Time};
use binnacle_registry::rfc3339;
use binnacle_store::{Revision, Store};
use parking_lot::Mutex;

/// The interval between samples, which is the resolution of times.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of samples. Beyond it, every other one is dropped.
const MAX_SAMPLES: usize = 100_000;

/// Samples of the store's revision. Those without changes are left out.
#[derive(Default)]
pub(crate) struct Times(Mutex<VecDeque<(SystemTime, Revision)>>);

impl Times {
    /// Takes samples until the future is dropped. Forgets those older than `retention`.
    pub(crate) async fn sample(&self, store: &dyn Store, retention: Duration) {
        loop {
            // A store that cannot be reached has no new revisions to serve.
            if let Ok(revision) = store.current_revision().await {
                self.add(SystemTime::now(), revision, retention);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn add(&self, now: SystemTime, revision: Revision, retention: Duration) {
        let mut samples = self.0.lock();
        if samples.back().is_none_or(|(_, last)| *last != revision) {
            samples.push_back((now, revision));
        }
        let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > retention);
        // The newest of the old ones is the revision at the beginning of the retention.
        while samples.get(1).is_some_and(|(time, _)| is_old(time)) {
            samples.pop_front();
        }
        if samples.len() > MAX_SAMPLES {
            let mut n = 0;
            samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
    }

    /// Returns the revision at a time.
    pub(crate) fn revision_at(&self, text: &str, now: SystemTime) -> Result<Revision, Status> {
        let time = Time::parse(text).ok().and_then(|time| system_time(time.unix_seconds()));
        let time = time.ok_or_else(|| Status::bad_request(format!("{text:?} is no revision and no RFC 3339 time")))?;
        if time > now + Duration::from_secs(1) {
            return Err(Status::bad_request(format!("the time {text} is in the future")));
        }
        let samples = self.0.lock();
        let earlier = samples.partition_point(|(sample, _)| *sample <= time);
        match earlier.checked_sub(1).and_then(|at| samples.get(at)) {
            Some((_, revision)) => Ok(*revision),
            None => {
                let since = samples.front().map_or(now, |(time, _)| *time);
                let since = rfc3339(since);
                Err(Status::expired(format!("the revision at {text} is not known: times are known since {since}")))
            }
        }
    }
}

fn system_time(seconds: i64) -> Option<SystemTime> {
    // The whole second counts.
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_millis(999))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
    }

    #[test]
    fn returns_the_last_revision_before_a_time() {
        let times = Times::default();
        for (second, revision) in [(0, 5), (10, 5), (20, 8), (30, 9)] {
            times.add(at(second), Revision(revision), Duration::from_secs(3600));
        }
        let revision = |seconds: u64| {
            times.revision_at(&rfc3339(at(seconds)), at(100)).map(|revision| revision.0).map_err(|status| status.code())
        };
        assert_eq!([0, 19, 20, 29, 30, 99].map(revision), [5, 5, 8, 8, 9, 9].map(Ok));
        // Samples are no older than the history.
        times.add(at(5000), Revision(20), Duration::from_secs(60));
        assert_eq!(revision(20), Err(410));
        assert_eq!(revision(101), Err(400));
        assert_eq!(times.revision_at("yesterday", at(0)).map_err(|status| status.code()), Err(400));
    }

    #[test]
    fn samples_have_a_bound() {
        let times = Times::default();
        for n in 0..250_000 {
            times.add(at(n), Revision(n), Duration::from_secs(1_000_000));
        }
        let samples = times.0.lock();
        assert!(samples.len() <= MAX_SAMPLES, "{}", samples.len());
        assert_eq!(samples.front().map(|(_, revision)| revision.0), Some(0));
    }
}
