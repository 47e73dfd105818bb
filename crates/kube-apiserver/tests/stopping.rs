//! Signals.

use std::time::Duration;

use binnacle_testkit::{Server, Signal, TempDir, admin};

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
