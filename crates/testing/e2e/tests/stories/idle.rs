//! The memory of a server that nobody uses.

use binnacle_testkit::{Server, wait_until};

/// The heap, stacks and changed data of an idle server in KiB: 11,700 to 12,300 of a build without optimization, about
/// half of that of a release build. `docs/performance.md` has the parts of a release build, and how its code is placed.
const IDLE: usize = 12_000;
const TOLERANCE: usize = 2_000;
/// The number of measurements in a row, some three seconds, that must be within the limit.
const SAMPLES: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn idle_server_takes_no_more_memory_than_before() {
    let server = Server::durable();
    let limit = IDLE + TOLERANCE;
    // The memory of the start is returned to the system after a second.
    let mut small = 0;
    wait_until(&format!("at most {limit} KiB"), async || {
        small = if anonymous(&server) <= limit { small + 1 } else { 0 };
        (small == SAMPLES).then_some(())
    })
    .await;
}

fn anonymous(server: &Server) -> usize {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id())).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
