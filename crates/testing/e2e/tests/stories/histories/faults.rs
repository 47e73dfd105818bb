//! Faults in a random order that depends on a seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use binnacle_testkit::{DiskCall, Errno, Etcd, Server, Signal};
use kube::Client;
use tokio::task::block_in_place;

use super::NAMESPACE;
use super::clients::KEYS;
use super::definition::define;
use crate::random::Random;

pub(super) struct Faults {
    /// `None` if there is one server with the embedded store.
    pub etcd: Option<Etcd>,
    pub servers: Vec<Server>,
    /// One per server.
    pub clients: Vec<Client>,
    pub seed: u64,
    pub random: Random,
    /// True if the cluster is restored from a snapshot in the end.
    pub restores: bool,
    /// The revision of the newest snapshot.
    pub saved: Option<u64>,
    /// The number of changes of the definition.
    pub definitions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    ServerKilled,
    ServerHangs,
    SlowDisk,
    /// The disk is full for a while.
    FullDisk,
    /// One flush fails.
    FailingFlush,
    /// No file can be opened for a while.
    NoDescriptors,
    /// The wall clock is off by hours for a while.
    ClockJumps,
    MemberKilled,
    MemberHangs,
    /// Together with a server.
    LeaderKilled,
    /// Cut off from all others.
    MemberCutOff,
    /// Cut off from its peers. It still gets requests from the servers, and cannot detect that it no longer leads.
    LeaderCutOff,
    /// There is no quorum.
    AllCutOff,
    /// While a member is cut off.
    ServerKilledInPart,
    /// A member executes a call, and its response is lost.
    AnswerLost,
    /// The definition of a used resource changes.
    DefinitionChanges,
    SnapshotSaved,
}

const EVERYWHERE: [Fault; 5] =
    [Fault::ServerKilled, Fault::ServerHangs, Fault::SlowDisk, Fault::ClockJumps, Fault::DefinitionChanges];
const OF_THE_DISK: [Fault; 3] = [Fault::FullDisk, Fault::FailingFlush, Fault::NoDescriptors];
const WITH_ETCD: [Fault; 8] = [
    Fault::LeaderCutOff,
    Fault::MemberKilled,
    Fault::MemberCutOff,
    Fault::LeaderKilled,
    Fault::MemberHangs,
    Fault::AllCutOff,
    Fault::ServerKilledInPart,
    Fault::AnswerLost,
];

impl Faults {
    /// Causes faults until the time is over, and recovers from all of them. Returns the number of each.
    pub(super) async fn happen(&mut self, until: Instant) -> BTreeMap<Fault, usize> {
        let mut all = EVERYWHERE.to_vec();
        if self.restores {
            all.extend([Fault::SnapshotSaved, Fault::MemberKilled, Fault::MemberHangs]);
        } else if self.etcd.is_some() {
            all.extend(WITH_ETCD);
        } else {
            all.extend(OF_THE_DISK);
        }
        let disk = self.etcd.as_ref().map_or_else(|| self.servers[0].disk(), Etcd::disk);
        if disk.is_none() {
            all.retain(|fault| *fault != Fault::SlowDisk && !OF_THE_DISK.contains(fault));
        }
        if self.servers[0].clock().is_none() {
            all.retain(|fault| *fault != Fault::ClockJumps);
        }
        let mut happened = BTreeMap::new();
        let mut waiting = Vec::new();
        while Instant::now() < until {
            // Each fault occurs once before any is repeated.
            if waiting.is_empty() {
                waiting.clone_from(&all);
            }
            let fault = waiting.swap_remove(self.random.below(waiting.len()));
            self.pause(200, 800).await;
            self.cause(fault).await;
            *happened.entry(fault).or_default() += 1;
        }
        happened
    }

    async fn cause(&mut self, fault: Fault) {
        let server = self.random.below(self.servers.len());
        let member = self.random.below(3);
        match fault {
            Fault::ServerKilled => block_in_place(|| self.servers[server].restart()),
            Fault::ServerHangs => {
                self.servers[server].signal(Signal::STOP);
                self.pause(300, 2000).await;
                self.servers[server].signal(Signal::CONT);
            }
            Fault::SlowDisk => {
                let delay = Duration::from_millis(50 << self.random.below(4));
                self.slow_down(delay);
                self.pause(1000, 3000).await;
                self.slow_down(Duration::ZERO);
            }
            Fault::FullDisk => self.disk_fails(&[DiskCall::Write, DiskCall::Allocate], Errno::NOSPC).await,
            Fault::NoDescriptors => self.disk_fails(&[DiskCall::Open], Errno::MFILE).await,
            Fault::FailingFlush => {
                self.servers[0].disk().expect("a disk that fails").fail_one_flush(Errno::IO);
                self.pause(200, 500).await;
                self.servers[0].disk().expect("a disk that fails").mend();
            }
            Fault::ClockJumps => {
                let hours = i64::try_from(1 + self.random.below(5)).unwrap();
                let shift = if self.random.below(2) == 0 { hours * 3600 } else { -hours * 3600 };
                self.servers[server].clock().expect("a clock that shifts").shift(shift);
                self.pause(500, 2000).await;
                self.servers[server].clock().expect("a clock that shifts").shift(0);
            }
            Fault::DefinitionChanges => {
                self.definitions += 1;
                // Fails if another client has changed the definition meanwhile: the server updates its status.
                let _ = define(&self.clients[server], self.definitions).await;
            }
            Fault::SnapshotSaved => self.save_snapshot(),
            Fault::MemberKilled => block_in_place(|| self.etcd_mut().restart(member)),
            Fault::MemberHangs => {
                self.etcd().freeze(member);
                self.pause(500, 2500).await;
                self.etcd().thaw(member);
            }
            Fault::LeaderKilled => block_in_place(|| {
                let leader = self.etcd().leader();
                self.etcd_mut().kill(leader);
                self.servers[server].restart();
                self.etcd_mut().restart(leader);
            }),
            Fault::MemberCutOff => self.cut_off(&[member], true).await,
            Fault::LeaderCutOff => {
                let leader = block_in_place(|| self.etcd().leader());
                self.cut_off(&[leader], false).await;
            }
            Fault::AllCutOff => self.cut_off(&[0, 1, 2], false).await,
            Fault::ServerKilledInPart => {
                let leader = block_in_place(|| self.etcd().leader());
                self.etcd().cut_off(leader, true);
                block_in_place(|| self.servers[server].restart());
                self.etcd().heal();
            }
            Fault::AnswerLost => {
                let key = format!("{NAMESPACE}/k{}", self.random.below(KEYS));
                self.etcd().lose_answer(&key);
                self.pause(300, 1500).await;
            }
        }
    }

    pub(super) fn save_snapshot(&mut self) {
        self.saved = Some(block_in_place(|| self.etcd().save_snapshot()));
    }

    /// Restores the newest snapshot. Returns its revision.
    pub(super) fn restore_snapshot(&mut self) -> u64 {
        block_in_place(|| self.etcd_mut().restore_snapshot());
        self.saved.take().expect("a snapshot was saved")
    }

    /// Makes calls of the embedded store fail; the server must recover without help.
    async fn disk_fails(&mut self, calls: &[DiskCall], error: Errno) {
        for call in calls {
            self.servers[0].disk().expect("a disk that fails").fail(*call, error);
        }
        self.pause(300, 1500).await;
        self.servers[0].disk().expect("a disk that fails").mend();
    }

    async fn cut_off(&mut self, members: &[usize], alone: bool) {
        for member in members {
            self.etcd().cut_off(*member, alone);
        }
        self.pause(500, 4000).await;
        self.etcd().heal();
    }

    fn slow_down(&self, delay: Duration) {
        let etcd = self.etcd.iter().filter_map(Etcd::disk);
        etcd.chain(self.servers.iter().filter_map(Server::disk)).for_each(|disk| disk.delay(delay));
    }

    /// Waits for a random number of milliseconds.
    async fn pause(&mut self, least: usize, most: usize) {
        let millis = least + self.random.below(most - least);
        tokio::time::sleep(Duration::from_millis(millis as u64)).await;
    }

    fn etcd(&self) -> &Etcd {
        self.etcd.as_ref().expect("faults of etcd happen where there is one")
    }

    fn etcd_mut(&mut self) -> &mut Etcd {
        self.etcd.as_mut().expect("faults of etcd happen where there is one")
    }
}
