//! Tests of executed, waiting and rejected requests.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

/// Records the name of a dispatched request.
struct RecordingNotifier(Rc<RefCell<Vec<&'static str>>>, &'static str);

impl Notify for RecordingNotifier {
    fn notify(self) -> bool {
        self.0.borrow_mut().push(self.1);
        self.1 != "gone"
    }
}

struct Test {
    queues: Queues<RecordingNotifier>,
    dispatched: Rc<RefCell<Vec<&'static str>>>,
    now: Instant,
    running: Vec<Execution>,
}

impl Test {
    fn new(limit: usize, queuing: Option<Queuing>) -> Self {
        let now = Instant::now();
        let mut queues = Queues::new(now);
        queues.configure(now, Some(limit), queuing);
        Self { queues, dispatched: Rc::default(), now, running: Vec::new() }
    }

    fn arrive(&mut self, name: &'static str, hash: u64, seats: usize) -> Outcome {
        let notifier = RecordingNotifier(self.dispatched.clone(), name);
        let arrival = Arrival { seats, schema: "s".into(), flow: name.into(), hash, notifier };
        let outcome = self.queues.arrive(self.now, arrival);
        if let Outcome::Served(running) = outcome {
            self.running.push(running);
        }
        outcome
    }

    fn finish_one(&mut self) {
        self.now += Duration::from_millis(3);
        let running = self.running.remove(0);
        self.queues.finish(self.now, running);
        let started: Vec<u64> = self.queues.started.iter().map(|(id, _)| *id).collect();
        self.running.extend(started.into_iter().filter_map(|id| self.queues.take_started(id)));
    }
}

fn queuing(queues: usize, hand_size: usize, length_limit: usize) -> Option<Queuing> {
    Some(Queuing { queues, hand_size, length_limit })
}

#[test]
fn rejects_excess_requests_without_queues() {
    let mut test = Test::new(2, None);
    assert!(matches!(test.arrive("a", 0, 1), Outcome::Served(_)));
    assert!(matches!(test.arrive("b", 0, 1), Outcome::Served(_)));
    assert_eq!(test.arrive("c", 0, 1), Outcome::Refused("concurrency-limit"));
    test.finish_one();
    assert!(matches!(test.arrive("d", 0, 1), Outcome::Served(_)));
    assert_eq!(test.queues.totals, Totals { dispatched: 3, rejected: 1, timed_out: 0 });
}

#[test]
fn greedy_flow_does_not_starve_another() {
    let mut test = Test::new(1, queuing(2, 1, 10));
    test.arrive("first", 0, 1);
    for _ in 0..6 {
        assert!(matches!(test.arrive("greedy", 0, 1), Outcome::Waits(_)));
    }
    test.arrive("modest", 1, 1);
    test.arrive("modest", 1, 1);
    for _ in 0..5 {
        test.finish_one();
    }
    let dispatched = test.dispatched.borrow().clone();
    let modest = dispatched.iter().position(|name| *name == "modest").unwrap();
    assert!(modest <= 2, "{dispatched:?}");
    assert_eq!(dispatched.iter().filter(|name| **name == "modest").count(), 2, "{dispatched:?}");
}

#[test]
fn full_queue_rejects_until_a_request_gives_up() {
    let mut test = Test::new(1, queuing(1, 1, 2));
    test.arrive("a", 0, 1);
    let Outcome::Waits(second) = test.arrive("b", 0, 1) else { panic!() };
    test.arrive("c", 0, 1);
    assert_eq!(test.arrive("d", 0, 1), Outcome::Refused("queue-full"));
    assert_eq!(test.queues.give_up(test.now, second), Ok(()));
    assert!(matches!(test.arrive("e", 0, 1), Outcome::Waits(_)));
    test.finish_one();
    assert_eq!(*test.dispatched.borrow(), ["a", "c"]);
    assert!(test.queues.give_up(test.now, second).is_err());
    assert_eq!(test.queues.totals.timed_out, 1);
}

#[test]
fn skips_requests_that_are_gone() {
    let mut test = Test::new(1, queuing(1, 1, 5));
    test.arrive("a", 0, 1);
    test.arrive("gone", 0, 1);
    test.arrive("b", 0, 1);
    test.finish_one();
    assert_eq!(*test.dispatched.borrow(), ["a", "gone", "b"]);
    assert_eq!((test.queues.running, test.queues.seats, test.queues.waiting), (1, 1, 0));
}

#[test]
fn wide_requests_wait_and_requests_wider_than_the_limit_run_alone() {
    let mut test = Test::new(4, queuing(4, 2, 5));
    test.arrive("a", 0, 3);
    assert!(matches!(test.arrive("b", 1, 3), Outcome::Waits(_)));
    test.finish_one();
    assert_eq!((test.queues.running, test.queues.seats), (1, 3));
    assert!(matches!(test.arrive("huge", 2, 9), Outcome::Waits(_)));
    test.finish_one();
    assert_eq!((test.queues.running, test.queues.seats), (1, 9));
    test.finish_one();
    assert_eq!((test.queues.running, test.queues.seats, test.queues.demand()), (0, 0, 0));
}

#[test]
fn reconfiguration_keeps_waiting_requests() {
    let mut test = Test::new(1, queuing(8, 1, 5));
    for hash in 0..8 {
        test.arrive("a", hash, 1);
    }
    test.queues.configure(test.now, Some(2), queuing(2, 1, 5));
    assert_eq!(test.queues.running, 2);
    test.queues.configure(test.now, None, None);
    assert_eq!((test.queues.running, test.queues.waiting), (8, 0));
    let started: Vec<u64> = test.queues.started.iter().map(|(id, _)| *id).collect();
    test.running.extend(started.into_iter().filter_map(|id| test.queues.take_started(id)));
    for _ in 0..8 {
        test.finish_one();
    }
    assert_eq!((test.queues.running, test.queues.seats, test.queues.queues.len()), (0, 0, 0));
}
