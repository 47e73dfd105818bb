//! A bounded cache of a webhook's answers, each with a TTL. Independent of the contents of requests and answers.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

/// A cache of answers, by the bytes of the request.
pub struct Answers<T> {
    most: usize,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    by_question: HashMap<Bytes, Answer<T>>,
    /// Oldest first; a repeated question is added again, with a newer number.
    order: VecDeque<(u64, Bytes)>,
    number: u64,
}

struct Answer<T> {
    said: T,
    until: Instant,
    number: u64,
}

impl<T: Clone> Answers<T> {
    /// Creates a cache with at most this number of answers.
    pub fn new(most: usize) -> Self {
        let kept = Kept { by_question: HashMap::new(), order: VecDeque::new(), number: 0 };
        Self { most, kept: Mutex::new(kept) }
    }

    pub fn get(&self, question: &[u8]) -> Option<T> {
        let kept = self.kept.lock();
        let answer = kept.by_question.get(question)?;
        (Instant::now() < answer.until).then(|| answer.said.clone())
    }

    pub fn put(&self, question: Bytes, said: T, ttl: Duration) {
        let mut kept = self.kept.lock();
        let kept = &mut *kept;
        kept.number += 1;
        let answer = Answer { said, until: Instant::now() + ttl, number: kept.number };
        kept.by_question.insert(question.clone(), answer);
        kept.order.push_back((kept.number, question));
        while kept.order.len() > self.most {
            let Some((number, oldest)) = kept.order.pop_front() else { return };
            if kept.by_question.get(&oldest).is_some_and(|answer| answer.number == number) {
                kept.by_question.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        const MOST: usize = 100;
        let answers = Answers::new(MOST);
        let hour = Duration::from_secs(3600);
        let key = |number: usize| Bytes::from(number.to_string());
        answers.put(key(0), "yes", hour);
        answers.put(key(1), "yes", Duration::ZERO);
        assert!(answers.get(b"0").is_some() && answers.get(b"1").is_none() && answers.get(b"2").is_none());
        // A refreshed answer remains when older ones are evicted.
        for number in 2..=MOST {
            answers.put(key(number), "yes", hour);
            if number == 10 {
                answers.put(key(0), "no", hour);
            }
        }
        assert_eq!(answers.get(b"0"), Some("no"));
        assert!(answers.get(b"1").is_none() && answers.get(b"3").is_some());
        let kept = answers.kept.lock();
        assert!(kept.by_question.len() <= MOST && kept.order.len() <= MOST);
    }
}
