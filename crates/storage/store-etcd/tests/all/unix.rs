//! A member behind a Unix socket.

use binnacle_store::Store;
use binnacle_store_etcd::WatchLimits;
use binnacle_testkit::{Etcd, TempDir};
use tokio::net::{TcpStream, UnixListener};

use crate::support::open;

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn connects_through_unix_socket() {
    let etcd = Etcd::single();
    let temp = TempDir::new();
    let socket = temp.join("etcd.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let member = etcd.endpoints()[0].trim_start_matches("http://").to_owned();
    let relay = tokio::spawn(async move {
        while let Ok((mut inbound, _)) = listener.accept().await {
            let member = member.clone();
            tokio::spawn(async move {
                let mut outbound = TcpStream::connect(member).await.expect("the member listens");
                let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
            });
        }
    });
    let store = open(vec![format!("unix://{socket}")], WatchLimits::default());
    let through_tcp = open(etcd.endpoints(), WatchLimits::default());
    assert_eq!(
        store.current_revision().await.expect("the socket leads to it"),
        through_tcp.current_revision().await.expect("the member answers")
    );
    store.close();
    through_tcp.close();
    relay.abort();
}
