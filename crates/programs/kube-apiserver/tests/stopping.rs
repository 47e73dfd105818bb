//! How the program ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use binnacle_testkit::{Server, Signal, TempDir, admin, program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_stop_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let data = TempDir::new();
        let mut server = Server::start(&["--data-dir", &data.join("d")]);
        // An idle connection does not delay the end.
        let mut idle = server.connect(&admin(&data.path().join("d"))).await;
        assert_eq!(idle.get("/readyz").await.unwrap().status, 200);
        server.signal(signal);
        let (status, took) = tokio::task::block_in_place(|| server.wait());
        println!("{signal:?}: ended after {took:?}");
        assert!(status.success(), "{status}");
        // Immediately; a machine that builds and runs other tests at the same time gets more.
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

/// Returns the temporary directories that a server has left behind.
fn left_behind(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).expect("the place can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("binnacle-")).collect()
}

/// `timeout` signals its child, and then the group that the child is in.
#[test]
fn the_same_signal_twice_is_one() {
    let mut server = Server::ephemeral();
    assert_eq!(left_behind(server.temp().path()).len(), 1);
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
    assert_eq!(left_behind(server.temp().path()), [""; 0]);
}

#[test]
fn a_later_signal_ends_the_process() {
    let mut server = Server::start(&["--ephemeral", "--shutdown-delay-duration=1h"]);
    while server.runs() {
        server.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(left_behind(server.temp().path()), [""; 0]);
}

#[test]
fn a_start_can_be_stopped() {
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
        assert_eq!(left_behind(temp.path()), [""; 0], "after {pause} ms");
    }
}
