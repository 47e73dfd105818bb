//! Shutdown of the program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use binnacle_testkit::{Server, Signal, TempDir, admin, program, wait_until_blocking};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_signal_stops_the_server_at_once() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let data = TempDir::new();
        let mut server = Server::start(&["--data-dir", &data.join("d")]);
        // An idle connection does not delay the end.
        let mut idle = server.connect(&admin(&data.path().join("d"))).await;
        assert_eq!(idle.get("/readyz").await.unwrap().status, 200);
        server.signal(signal);
        let (status, took) = tokio::task::block_in_place(|| server.wait());
        println!("{signal:?}: ended after {took:?}");
        assert!(status.success(), "{status}");
        // It takes milliseconds; the bound allows for a machine that runs other builds and tests.
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

/// Returns the temporary directories of servers.
fn temporary_directories(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("the place can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("binnacle-")).collect()
}

/// `timeout` signals its child, and then the group that the child is in.
#[test]
fn repeated_signal_within_a_second_counts_once() {
    for pause in [0, 500] {
        // The delay keeps the server until the second signal.
        let mut server = Server::start(&["--ephemeral", &format!("--shutdown-delay-duration={}ms", 2 * pause)]);
        assert_eq!(temporary_directories(server.temp().path()).len(), 1);
        server.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(pause));
        server.signal(Signal::TERM);
        let (status, _) = server.wait();
        assert!(status.success(), "after {pause} ms: {status}");
        assert_eq!(temporary_directories(server.temp().path()), [""; 0], "after {pause} ms");
    }
}

#[test]
fn start_removes_directories_of_killed_servers() {
    let temp = TempDir::new();
    let start = |name: &str| {
        let mut command = program();
        command.args(["--ephemeral", "--secure-port=0"]).env("TMPDIR", temp.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("Try: ")), "{name} is not ready");
        child
    };
    let mut killed = start("the first");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let abandoned = temporary_directories(temp.path());
    assert_eq!(abandoned.len(), 1);
    let mut running = [start("the second"), start("the third")];
    wait_until_blocking("only the directories of running servers are left", || {
        let left = temporary_directories(temp.path());
        (left.len() == 2 && !left.contains(&abandoned[0])).then_some(())
    });
    for server in &mut running {
        rustix::process::kill_process(rustix::process::Pid::from_child(server), Signal::HUP).unwrap();
        assert!(server.wait().unwrap().success());
    }
    assert_eq!(temporary_directories(temp.path()), [""; 0]);
}

#[test]
fn later_signal_ends_the_process() {
    let mut server = Server::start(&["--ephemeral", "--shutdown-delay-duration=1h"]);
    while server.runs() {
        server.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(temporary_directories(server.temp().path()), [""; 0]);
}

#[test]
fn signal_interrupts_start() {
    let temp = TempDir::new();
    for pause in (0..160).step_by(10) {
        let mut command = program();
        command.args(["--ephemeral", "--secure-port=0"]).env("TMPDIR", temp.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        // Before the program listens for signals, the system ends it.
        assert!(matches!(status.code(), Some(0) | None), "after {pause} ms: {status}");
        assert_eq!(temporary_directories(temp.path()), [""; 0], "after {pause} ms");
    }
}
