//! A bounded cache of webhook responses, each with a TTL. Independent of the contents of requests and responses.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

/// A cache of responses, keyed by the bytes of the request.
pub struct AnswerCache<T> {
    capacity: usize,
    state: Mutex<CacheState<T>>,
}

struct CacheState<T> {
    by_request: HashMap<Bytes, Answer<T>>,
    /// Oldest first. A repeated request is appended again, with a newer number.
    order: VecDeque<(u64, Bytes)>,
    number: u64,
}

struct Answer<T> {
    value: T,
    expires: Instant,
    number: u64,
}

impl<T: Clone> AnswerCache<T> {
    /// Creates a cache for at most `capacity` responses.
    pub fn new(capacity: usize) -> Self {
        let state = CacheState { by_request: HashMap::new(), order: VecDeque::new(), number: 0 };
        Self { capacity, state: Mutex::new(state) }
    }

    pub fn get(&self, request: &[u8]) -> Option<T> {
        let state = self.state.lock();
        let answer = state.by_request.get(request)?;
        (Instant::now() < answer.expires).then(|| answer.value.clone())
    }

    pub fn put(&self, request: Bytes, value: T, ttl: Duration) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.number += 1;
        let answer = Answer { value, expires: Instant::now() + ttl, number: state.number };
        state.by_request.insert(request.clone(), answer);
        state.order.push_back((state.number, request));
        while state.order.len() > self.capacity {
            let Some((number, oldest)) = state.order.pop_front() else { return };
            if state.by_request.get(&oldest).is_some_and(|answer| answer.number == number) {
                state.by_request.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_oldest_answers_and_ignores_expired_ones() {
        const MOST: usize = 100;
        let answers = AnswerCache::new(MOST);
        let hour = Duration::from_secs(3600);
        let key = |number: usize| Bytes::from(number.to_string());
        answers.put(key(0), "yes", hour);
        answers.put(key(1), "yes", Duration::ZERO);
        assert!(answers.get(b"0").is_some() && answers.get(b"1").is_none() && answers.get(b"2").is_none());
        // A refreshed response remains when older ones are evicted.
        for number in 2..=MOST {
            answers.put(key(number), "yes", hour);
            if number == 10 {
                answers.put(key(0), "no", hour);
            }
        }
        assert_eq!(answers.get(b"0"), Some("no"));
        assert!(answers.get(b"1").is_none() && answers.get(b"3").is_some());
        let state = answers.state.lock();
        assert!(state.by_request.len() <= MOST && state.order.len() <= MOST);
    }
}
