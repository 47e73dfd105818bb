//! Answers of a webhook that still count, a bounded number of them.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::review::Status;

/// As many as in the reference.
const MAX: usize = 8192;

#[derive(Default)]
pub(super) struct Cache(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_spec: HashMap<Bytes, Answer>,
    /// The oldest first; a spec that was answered again stands here again, with its newer number.
    order: VecDeque<(u64, Bytes)>,
    number: u64,
}

struct Answer {
    status: Status,
    until: Instant,
    number: u64,
}

impl Cache {
    pub(super) fn get(&self, spec: &[u8]) -> Option<Status> {
        let answers = self.0.lock();
        let answer = answers.by_spec.get(spec)?;
        (Instant::now() < answer.until).then(|| answer.status.clone())
    }

    pub(super) fn put(&self, spec: Bytes, status: Status, ttl: Duration) {
        let mut answers = self.0.lock();
        let answers = &mut *answers;
        answers.number += 1;
        let answer = Answer { status, until: Instant::now() + ttl, number: answers.number };
        answers.by_spec.insert(spec.clone(), answer);
        answers.order.push_back((answers.number, spec));
        while answers.order.len() > MAX {
            let Some((number, oldest)) = answers.order.pop_front() else { return };
            if answers.by_spec.get(&oldest).is_some_and(|answer| answer.number == number) {
                answers.by_spec.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        let (cache, yes) = (Cache::default(), Status { allowed: true, ..Status::default() });
        let hour = Duration::from_secs(3600);
        let key = |number: usize| Bytes::from(number.to_string());
        cache.put(key(0), yes.clone(), hour);
        cache.put(key(1), yes.clone(), Duration::ZERO);
        assert!(cache.get(b"0").is_some() && cache.get(b"1").is_none() && cache.get(b"2").is_none());
        // One that is answered again stays when the old ones go.
        for number in 2..=MAX {
            cache.put(key(number), yes.clone(), hour);
            if number == 10 {
                cache.put(key(0), Status::default(), hour);
            }
        }
        assert_eq!(cache.get(b"0"), Some(Status::default()));
        assert!(cache.get(b"1").is_none() && cache.get(b"3").is_some());
        let answers = cache.0.lock();
        assert!(answers.by_spec.len() <= MAX && answers.order.len() <= MAX);
    }
}
