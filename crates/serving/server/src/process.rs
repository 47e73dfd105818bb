//! The `process_*` families, read from `/proc` per request. Without `/proc` they are absent.

use std::sync::LazyLock;

use binnacle_metrics::{Counter, Gauge, families};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use tokio::runtime::Handle;

families! {
    struct Families {
        cpu_seconds: Counter = "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.";
        received: Counter = "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.";
        sent: Counter = "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.";
        open_files: Gauge = "process_open_fds", "Number of open file descriptors.";
        most_files: Gauge = "process_max_fds", "Maximum number of open file descriptors.";
        resident: Gauge = "process_resident_memory_bytes", "Resident memory size in bytes.";
        virtual_memory: Gauge = "process_virtual_memory_bytes", "Virtual memory size in bytes.";
        most_virtual_memory: Gauge = "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.";
        started: Gauge = "process_start_time_seconds", "Start time of the process since unix epoch in seconds.";
        /// Tasks under the name of Go's goroutines, for existing dashboards.
        tasks: Gauge = "go_goroutines",
            "Number of tasks of the runtime that answers requests: they stand for goroutines.";
    }
}

/// Metrics of this process from the kernel, set at each scrape.
pub(super) struct Process(Families);

struct Snapshot {
    cpu_seconds: f64,
    open_files: f64,
    most_files: f64,
    resident: f64,
    virtual_memory: f64,
    most_virtual_memory: f64,
    /// Since boot.
    started: f64,
}

/// The kernel counts CPU time and start times in hundredths of a second (`USER_HZ`, part of its ABI).
const TICKS: f64 = 100.0;

/// The resources that this process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUsage {
    /// User and system time since the start.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_files: u64,
    pub most_files: u64,
    /// The start in seconds of the Unix epoch.
    pub started: f64,
}

impl ProcessUsage {
    /// Returns the current usage; `None` without `/proc`.
    pub fn now() -> Option<Self> {
        let now = snapshot()?;
        Some(Self {
            cpu_seconds: now.cpu_seconds,
            resident_bytes: now.resident as u64,
            open_files: now.open_files as u64,
            most_files: now.most_files as u64,
            started: boot_time()? + now.started,
        })
    }
}

/// Returns the start time of this process, in seconds of the Unix epoch. It is read once: each cluster has a metric of it.
pub(crate) fn start_time() -> Option<f64> {
    static START: LazyLock<Option<f64>> = LazyLock::new(|| Some(boot_time()? + snapshot()?.started));
    *START
}

impl Process {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        Families::build().map(Self)
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(now) = snapshot() else { return Vec::new() };
        let families = &self.0;
        families.cpu_seconds.set_total(now.cpu_seconds);
        let mut all = families.cpu_seconds.collect();
        if let Ok(runtime) = Handle::try_current() {
            families.tasks.set(runtime.metrics().num_alive_tasks() as f64);
            all.extend(families.tasks.collect());
        }
        if let Some([received, sent]) = network() {
            for (counter, bytes) in [(&families.received, received), (&families.sent, sent)] {
                counter.set_total(bytes);
                all.extend(counter.collect());
            }
        }
        for (gauge, value) in [
            (&families.open_files, now.open_files),
            (&families.most_files, now.most_files),
            (&families.resident, now.resident),
            (&families.virtual_memory, now.virtual_memory),
            (&families.most_virtual_memory, now.most_virtual_memory),
            (&families.started, boot_time().unwrap_or_default() + now.started),
        ] {
            gauge.set(value);
            all.extend(gauge.collect());
        }
        all
    }
}

fn snapshot() -> Option<Snapshot> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program name in parentheses may contain any characters; the numbers after it start with field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
    };
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    // The soft limit; unlimited is the largest number, as in kube-apiserver.
    let limit = |name: &str| {
        let value = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
        if value == "unlimited" { Some(u64::MAX as f64) } else { value.parse::<f64>().ok() }
    };
    Some(Snapshot {
        cpu_seconds: (field(14)? + field(15)?) / TICKS,
        open_files: std::fs::read_dir("/proc/self/fd").ok()?.count() as f64,
        most_files: limit("Max open files")?,
        resident: kib("VmRSS:")?,
        virtual_memory: kib("VmSize:")?,
        most_virtual_memory: limit("Max address space")?,
        started: field(22)? / TICKS,
    })
}

/// Returns the received and sent bytes of all interfaces in the process's network namespace, summed up as by Go's
/// collector.
fn network() -> Option<[f64; 2]> {
    let text = std::fs::read_to_string("/proc/self/net/netstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
    let mut found = [None, None];
    for (name, value) in names.zip(values) {
        match name {
            "InOctets" => found[0] = value.parse().ok(),
            "OutOctets" => found[1] = value.parse().ok(),
            _ => {}
        }
    }
    Some([found[0]?, found[1]?])
}

fn boot_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs /proc")]
    fn reads_plausible_numbers() {
        let now = snapshot().unwrap();
        assert!(now.resident > 100_000.0 && now.virtual_memory >= now.resident && now.open_files >= 3.0);
        assert!(now.most_files >= now.open_files && now.most_virtual_memory >= now.virtual_memory);
        assert!(Process::new().unwrap().collect().len() >= 7);
    }
}
