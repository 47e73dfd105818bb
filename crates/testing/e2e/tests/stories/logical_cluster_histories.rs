//! Random histories of logical clusters and forks, with kills in the middle of every step, judged by a model.
//!
//! The same `BINNACLE_HISTORY_SEED` gives the same sequence of steps; `BINNACLE_HISTORY_STEPS` sets their number.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use binnacle_testkit::{Etcd, Kubectl, wait_until_blocking};
use serde_json::json;

use crate::logical_cluster_host::Host;
use crate::random::{Random, setting};

/// The contents of the clusters: the value of each config map, by cluster and name.
type Model = BTreeMap<String, BTreeMap<String, String>>;

const CLUSTERS: usize = 6;
const MAPS: usize = 4;
/// One in so many steps is interrupted.
const KILLS: usize = 3;
/// The longest time from the beginning of a step until the server is killed, in milliseconds.
const KILLED_WITHIN: usize = 120;

struct History {
    host: Host,
    random: Random,
    model: Model,
    created: usize,
}

impl History {
    fn run(flags: &[&str]) -> Host {
        let seed = setting("BINNACLE_HISTORY_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        println!("seed {seed}");
        let host = Host::start(&[&["--etcd-compaction-interval=1s"], flags].concat());
        let mut history = Self { host, random: Random::new(seed), model: Model::new(), created: 0 };
        history.create(None, false);
        for _ in 0..setting("BINNACLE_HISTORY_STEPS").unwrap_or(20) {
            history.step();
        }
        while let Some(cluster) = history.model.keys().next().cloned() {
            history.delete(&cluster);
        }
        history.host
    }

    fn step(&mut self) {
        let is_interrupted = self.random.below(KILLS) == 0;
        let cluster = self.any_cluster();
        match self.random.below(10) {
            0 => self.create(None, is_interrupted),
            1..4 => self.create(cluster, is_interrupted),
            4 => {
                if let Some(cluster) = cluster {
                    self.delete(&cluster);
                }
            }
            _ => {
                if let Some(cluster) = cluster {
                    self.write(&cluster, is_interrupted);
                }
            }
        }
        self.check();
    }

    fn any_cluster(&mut self) -> Option<String> {
        let at = self.random.below(self.model.len().max(1));
        self.model.keys().nth(at).cloned()
    }

    fn of(&self, cluster: &str) -> Kubectl {
        self.host.administrator(cluster)
    }

    /// Kills the server soon, and starts it again.
    fn interrupt(&mut self) {
        thread::sleep(Duration::from_millis(self.random.below(KILLED_WITHIN) as u64));
        self.host.server.kill();
        self.host.server.restart();
    }

    /// Creates a cluster, perhaps as a fork.
    fn create(&mut self, source: Option<String>, is_interrupted: bool) {
        if self.model.len() == CLUSTERS {
            return;
        }
        self.created += 1;
        let name = format!("c{}", self.created);
        let spec = match &source {
            Some(source) => json!({"idleAfter": "1s", "source": {"cluster": source}}),
            None => json!({"idleAfter": "1s"}),
        };
        let object = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster",
            "metadata": {"name": name}, "spec": spec});
        wait_until_blocking("the cluster is created", || {
            // The definition is installed after the start.
            self.host.kubectl.run_with(&["create", "-f", "-"], &object.to_string()).success.then_some(())
        });
        if is_interrupted {
            self.interrupt();
        }
        let contents = source.map(|source| self.model[&source].clone()).unwrap_or_default();
        self.model.insert(name, contents);
    }

    fn delete(&mut self, cluster: &str) {
        self.host.kubectl.ok(&["delete", "logicalcluster", cluster, "--wait=false"]);
        if self.random.below(2) == 0 {
            self.interrupt();
        }
        wait_until_blocking("the cluster is deleted", || {
            let found = self.host.kubectl.run(&["get", "logicalcluster", cluster]);
            (!found.success && found.err.contains("not found")).then_some(())
        });
        self.model.remove(cluster);
    }

    /// Writes or deletes a config map. If the server is killed meanwhile, it has the old or the new value.
    fn write(&mut self, cluster: &str, is_interrupted: bool) {
        let kubectl = self.of(cluster);
        let (map, value) = (format!("m{}", self.random.below(MAPS)), format!("v{}", self.random.below(1_000_000)));
        let is_deletion = self.random.below(4) == 0;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map, "namespace": "default"},
            "data": {"value": value}})
        .to_string();
        let write = || match is_deletion {
            true => kubectl.run(&["delete", "configmap", &map, "--namespace=default", "--ignore-not-found"]),
            false => kubectl.run_with(&["apply", "--server-side", "-f", "-"], &object),
        };
        let want = (!is_deletion).then_some(value);
        if is_interrupted {
            thread::scope(|threads| {
                let writing = threads.spawn(write);
                self.interrupt();
                writing.join().unwrap();
            });
            let now = contents(&self.of(cluster)).remove(&map);
            assert!(now == want || now.as_ref() == self.model[cluster].get(&map), "{cluster} {map}: {now:?}, {want:?}");
            self.expect(cluster, map, now);
        } else {
            let outcome = write();
            assert!(outcome.success, "{outcome}");
            self.expect(cluster, map, want);
        }
    }

    fn expect(&mut self, cluster: &str, map: String, value: Option<String>) {
        let maps = self.model.get_mut(cluster).unwrap();
        match value {
            Some(value) => maps.insert(map, value),
            None => maps.remove(&map),
        };
    }

    /// Compares one cluster with the model, and now and then all of them.
    fn check(&mut self) {
        let all = self.random.below(5) == 0;
        let one = self.any_cluster();
        for (cluster, maps) in self.model.iter().filter(|(cluster, _)| all || Some(*cluster) == one.as_ref()) {
            assert_eq!(contents(&self.of(cluster)), *maps, "{cluster}");
        }
    }
}

/// Returns the config maps of a cluster that steps have made.
fn contents(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let template = "--output=jsonpath={range .items[*]}{.metadata.name}={.data.value} {end}";
    let listed = wait_until_blocking("the cluster answers", || {
        let listed = kubectl.run(&["get", "configmaps", "--namespace=default", template]);
        listed.success.then_some(listed.out)
    });
    let pairs = listed.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.starts_with('m')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn clusters_and_forks_match_a_model() {
    History::run(&[]);
}

#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn clusters_and_forks_on_etcd_match_a_model_and_leave_nothing() {
    let etcd = Etcd::single();
    History::run(&[&etcd.servers()]);
    let keys = etcd.ctl(0, &["get", "--prefix", "/registry/logicalclusters/", "--keys-only"]);
    let left: Vec<_> = keys.lines().filter(|key| !key.is_empty() && !key.contains("/initial-objects")).collect();
    assert!(left.is_empty(), "{left:?}");
}
