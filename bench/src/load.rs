//! Measurement of many concurrent operations and their cost to the server.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

use crate::client::Read;
use crate::process;

/// A row of the table.
pub(crate) struct Row {
    pub name: String,
    /// The number of operations, or of delivered events.
    pub count: u64,
    pub took: Duration,
    pub bytes: u64,
    /// CPU time of the server per operation.
    pub cpu: Duration,
    /// Sorted latencies.
    pub latencies: Vec<Duration>,
    /// Resident memory of the server afterwards.
    pub resident: u64,
}

impl Row {
    pub(crate) const HEAD: &str = "| operation | per second | MB/s | p50 ms | p99 ms | CPU us | resident MB |\n\
                            | --- | --- | --- | --- | --- | --- | --- |";

    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let at = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.1} | {:.0} |",
            self.name,
            self.count as f64 / seconds,
            self.bytes as f64 / seconds / 1e6,
            self.percentile(50),
            self.percentile(99),
            self.cpu.as_secs_f64() * 1e6,
            self.resident as f64 / 1e6
        )
    }
}

/// Runs `count` operations, `at_once` at a time. A failed operation ends the run.
pub(crate) async fn run(
    name: impl Into<String>,
    pid: u32,
    count: usize,
    at_once: usize,
    operation: impl AsyncFn(usize) -> Read,
) -> Row {
    let latencies = Mutex::new(Vec::with_capacity(count));
    let bytes = Mutex::new(0);
    let (cpu, began) = (process::cpu_seconds(pid), Instant::now());
    stream::iter(0..count)
        .for_each_concurrent(at_once, async |n| {
            let began = Instant::now();
            let read = operation(n).await;
            assert!(read.status < 300, "status {}", read.status);
            latencies.lock().unwrap().push(began.elapsed());
            *bytes.lock().unwrap() += read.bytes;
        })
        .await;
    let took = began.elapsed();
    let cpu = Duration::from_secs_f64((process::cpu_seconds(pid) - cpu) / count as f64);
    let mut latencies = latencies.into_inner().unwrap();
    latencies.sort();
    Row {
        name: name.into(),
        count: count as u64,
        took,
        bytes: bytes.into_inner().unwrap(),
        cpu,
        latencies,
        resident: process::resident(pid).0,
    }
}
