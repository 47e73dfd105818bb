//! The resource usage of a process, from `/proc`.

use std::fs::read_to_string;

/// Clock ticks are hundredths of a second on all Linux platforms.
const TICKS: f64 = 100.0;

/// Returns user and system time in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name of the program is in parentheses and may contain any character.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / TICKS
}

/// Returns the time that this thread has run, in seconds.
pub(crate) fn own_thread_seconds() -> f64 {
    let nanoseconds = read_to_string("/proc/thread-self/schedstat").unwrap();
    nanoseconds.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Resets the peak of resident memory to the present value.
pub(crate) fn forget_peak(pid: u32) {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

/// Returns resident memory in bytes: the present value and the peak.
pub(crate) fn resident(pid: u32) -> (u64, u64) {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}
