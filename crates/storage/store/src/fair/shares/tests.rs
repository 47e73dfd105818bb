use std::collections::BTreeMap;

use super::*;

/// A write in the store or in front of it.
struct Write {
    user: usize,
    cost: usize,
    entry: Entry,
}

/// Random work of some users, one write after the other.
struct Work {
    shares: Arc<WriteShares>,
    names: Vec<Arc<str>>,
    /// In the order of each user.
    waiting: Vec<VecDeque<Write>>,
    started: Vec<(usize, usize, WritePermit)>,
    /// The cost of the writes that each user has started.
    totals: Vec<usize>,
}

impl Work {
    fn new(shares: Arc<WriteShares>, users: usize) -> Self {
        let names = (0..users).map(|user| Arc::from(format!("user {user}"))).collect();
        let waiting = (0..users).map(|_| VecDeque::new()).collect();
        Self { shares, names, waiting, started: Vec::new(), totals: vec![0; users] }
    }

    fn enter(&mut self, user: usize, cost: usize) {
        let entry = self.shares.enter(&self.names[user], cost).expect("few writes");
        self.waiting[user].push_back(Write { user, cost, entry });
        self.collect();
    }

    /// Takes the permits of the writes that have started, and checks that those of a user start in order.
    fn collect(&mut self) {
        for waiting in &mut self.waiting {
            let mut is_blocked = false;
            for _ in 0..waiting.len() {
                let mut write = waiting.pop_front().expect("one of those");
                let permit = match &mut write.entry {
                    Entry::Waits(granted) => granted.try_recv().ok(),
                    Entry::Started(_) => None,
                };
                match (permit, write) {
                    (Some(permit), write) => {
                        assert!(!is_blocked, "a later write of user {} has started", write.user);
                        self.started.push((write.user, write.cost, permit));
                        self.totals[write.user] += write.cost;
                    }
                    (None, Write { user, cost, entry: Entry::Started(permit) }) => {
                        assert!(!is_blocked, "a later write of user {user} has started");
                        self.started.push((user, cost, permit));
                        self.totals[user] += cost;
                    }
                    (None, write) => {
                        is_blocked = true;
                        waiting.push_back(write);
                    }
                }
            }
        }
    }

    /// Ends a write that has started.
    fn end(&mut self, at: usize) {
        drop(self.started.swap_remove(at));
        self.collect();
    }

    fn in_store(&self, user: usize) -> Vec<usize> {
        self.started.iter().filter(|(of, ..)| *of == user).map(|(_, cost, _)| *cost).collect()
    }

    fn check_limits(&self) {
        let Limits { of_one, of_all } = self.shares.limits;
        for user in 0..self.names.len() {
            let costs = self.in_store(user);
            assert!(costs.len() <= 1 || costs.iter().sum::<usize>() <= of_one, "user {user}: {costs:?}");
        }
        let all: Vec<_> = self.started.iter().map(|(_, cost, _)| *cost).collect();
        assert!(all.len() <= 1 || all.iter().sum::<usize>() <= of_all, "{all:?}");
        assert_eq!(self.shares.state.lock().used, all.iter().sum::<usize>());
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn write_of_another_user_starts_at_once() {
    let mut work = Work::new(WriteShares::new(), 2);
    (0..2000).for_each(|_| work.enter(0, WRITE + 100));
    assert!((100..=128).contains(&work.in_store(0).len()), "{}", work.in_store(0).len());
    for size in [100, 1_500_000] {
        work.enter(1, WRITE + size);
        assert_eq!(work.in_store(1), [WRITE + size]);
        let at = work.started.iter().position(|(user, ..)| *user == 1).expect("it has started");
        work.end(at);
    }
}

#[test]
fn large_writes_are_carried_out_alone() {
    let mut work = Work::new(WriteShares::with_limits(1000, 1500), 2);
    work.enter(0, 5000);
    work.enter(0, 1);
    assert_eq!(work.in_store(0), [5000]);
    work.enter(1, 10);
    assert!(work.in_store(1).is_empty(), "the store is full");
    work.end(0);
    assert_eq!((work.in_store(0), work.in_store(1)), (vec![1], vec![10]));
}

/// The order of arrival, the limits, and an end of all writes, whatever the schedule.
#[test]
fn random_schedules_keep_limits_and_order() {
    for seed in 0..200 {
        let mut numbers = Numbers(seed);
        let mut work = Work::new(WriteShares::with_limits(300_000, 700_000), 5);
        for _ in 0..400 {
            if numbers.below(3) > 0 {
                let largest = [1000, 50_000, 500_000][numbers.below(3)];
                let (user, cost) = (numbers.below(5), 1 + numbers.below(largest));
                work.enter(user, cost);
            } else if !work.started.is_empty() {
                let at = numbers.below(work.started.len());
                work.end(at);
            }
            if numbers.below(10) == 0 {
                // A caller that is gone.
                let user = numbers.below(5);
                work.waiting[user].pop_back();
            }
            work.check_limits();
        }
        while !work.started.is_empty() {
            let at = numbers.below(work.started.len());
            work.end(at);
            work.check_limits();
        }
        assert!(work.waiting.iter().all(VecDeque::is_empty), "seed {seed}: writes wait forever");
        let state = work.shares.state.lock();
        assert!(state.users.is_empty() && state.turns.is_empty(), "seed {seed}: users are kept");
    }
}

/// Users that always have waiting writes get the same bytes, whatever the size and the number of their writes.
#[test]
fn waiting_users_get_equal_bytes() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let sizes = [5_000, 20_000, 300_000];
        let mut work = Work::new(WriteShares::with_limits(1 << 20, 1 << 20), sizes.len());
        for _ in 0..1500 {
            for (user, size) in sizes.into_iter().enumerate() {
                // Users with small writes have many of them.
                while work.waiting[user].iter().map(|write| write.cost).sum::<usize>() < 600_000 {
                    let cost = size / 2 + numbers.below(size);
                    work.enter(user, cost);
                }
            }
            let at = numbers.below(work.started.len());
            work.end(at);
            let [least, most] =
                [work.totals.iter().min(), work.totals.iter().max()].map(|total| *total.expect("users"));
            // What the first one had in the store before others came, and a turn with what was saved for a large write.
            assert!(most - least <= (1 << 20) + 2 * (QUANTUM + 450_000), "seed {seed}: {:?}", work.totals);
        }
        assert!(work.totals.iter().all(|total| *total > 2 << 20), "seed {seed}: {:?}", work.totals);
    }
}

/// A store with a full share of one user, as its others see it: each gets one write into the next group.
#[test]
fn sequential_writes_of_others_pass_a_crowd() {
    let mut work = Work::new(WriteShares::new(), 20);
    (0..2000).for_each(|_| work.enter(0, WRITE + 900_000));
    let mut groups = BTreeMap::new();
    for group in 0..50 {
        (1..20).for_each(|user| work.enter(user, WRITE + 100));
        // All that is in the store is one group.
        let carried_out: Vec<_> = work.started.drain(..).collect();
        for (user, ..) in &carried_out {
            groups.entry(*user).or_insert_with(Vec::new).push(group);
        }
        drop(carried_out);
        work.collect();
    }
    for user in 1..20 {
        assert_eq!(groups[&user], (0..50).collect::<Vec<_>>(), "user {user}");
    }
    assert_eq!(groups[&0].len(), 100, "two large writes in each group");
}

#[tokio::test]
async fn waits_are_counted() {
    let shares = WriteShares::with_limits(2 * WRITE, 4 * WRITE);
    let waits = Arc::new(WriteWaits::default());
    let share = shares.share("a".into(), waits.clone());
    let first = share.acquire(10).await.expect("room");
    assert_eq!(waits.writes(), 0);
    let second = tokio::spawn({
        let share = share.clone();
        async move { share.acquire(WRITE).await.map(drop) }
    });
    while waits.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(first);
    second.await.expect("no panic").expect("a permit");
    assert_eq!((waits.writes(), waits.waiting()), (1, 0));
    assert!(waits.time() > Duration::ZERO);
}
