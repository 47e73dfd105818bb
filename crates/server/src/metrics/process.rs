//! The `process_*` families, read from `/proc` when they are asked for. Where there is no `/proc` they are absent.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

/// What the kernel says of this process.
#[derive(Clone)]
pub(super) struct Process {
    /// A gauge here and typed as a counter in the answer, because it is set and not counted.
    cpu_seconds: Counter,
    open_files: Gauge,
    resident: Gauge,
    virtual_memory: Gauge,
    started: Gauge,
}

struct Snapshot {
    cpu_seconds: f64,
    open_files: f64,
    resident: f64,
    virtual_memory: f64,
    /// Since the machine's boot.
    started: f64,
}

/// The kernel counts CPU time and start times in hundredths of a second (`USER_HZ`, part of its ABI).
const TICKS: f64 = 100.0;

pub(crate) const START_TIME: &str = "process_start_time_seconds";
pub(crate) const START_TIME_HELP: &str = "Start time of the process since unix epoch in seconds.";

/// When this process was started, in seconds of the Unix epoch.
pub(crate) fn start_time() -> Option<f64> {
    Some(boot_time()? + snapshot()?.started)
}

impl Process {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu_seconds: Counter::new("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")?,
            open_files: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            resident: Gauge::new("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            virtual_memory: Gauge::new("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            started: Gauge::new(START_TIME, START_TIME_HELP)?,
        })
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.cpu_seconds.desc();
        for gauge in [&self.open_files, &self.resident, &self.virtual_memory, &self.started] {
            all.extend(gauge.desc());
        }
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(now) = snapshot() else { return Vec::new() };
        self.cpu_seconds.reset();
        self.cpu_seconds.inc_by(now.cpu_seconds);
        self.open_files.set(now.open_files);
        self.resident.set(now.resident);
        self.virtual_memory.set(now.virtual_memory);
        self.started.set(boot_time().unwrap_or_default() + now.started);
        let mut all = self.cpu_seconds.collect();
        for gauge in [&self.open_files, &self.resident, &self.virtual_memory, &self.started] {
            all.extend(gauge.collect());
        }
        all
    }
}

fn snapshot() -> Option<Snapshot> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain anything; the numbers begin behind it with field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
    };
    Some(Snapshot {
        cpu_seconds: (field(14)? + field(15)?) / TICKS,
        open_files: std::fs::read_dir("/proc/self/fd").ok()?.count() as f64,
        resident: kib("VmRSS:")?,
        virtual_memory: kib("VmSize:")?,
        started: field(22)? / TICKS,
    })
}

fn boot_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plausible() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            println!("skipped: no /proc");
            return;
        }
        let now = snapshot().unwrap();
        assert!(now.resident > 100_000.0 && now.virtual_memory >= now.resident && now.open_files >= 3.0);
        assert_eq!(Process::new().unwrap().collect().len(), 5);
    }
}
