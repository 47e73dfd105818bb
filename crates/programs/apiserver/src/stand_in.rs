//! The substitute for etcd that test harnesses start: the server checks whether the given etcd on this machine is one,
//! and then keeps all objects in memory.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use binnacle_etcd_stand_in::{DOCUMENT, PATH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::settings::{Etcd, Storage};

/// The timeout of a substitute's response. A slower server is an etcd that is slow or not started yet.
const TIMEOUT: Duration = Duration::from_secs(1);

/// An error of a substitute that is not usable.
#[derive(Debug, thiserror::Error)]
#[error("the etcd at {0} is a stand-in that stores nothing: it cannot be used together with other etcd servers")]
pub(crate) struct StandInError(String);

/// Uses memory instead of etcd if the given etcd is a substitute. Only a server of this machine with plain HTTP is
/// checked, by a request that etcd answers with "not found"; addresses and ports mean nothing.
pub(crate) async fn replace_stand_in(storage: &mut Storage) -> Result<(), StandInError> {
    let Some(etcd) = &storage.etcd else { return Ok(()) };
    let Some((server, address)) = etcd.servers.iter().find_map(|server| Some((server, local(server)?))) else {
        return Ok(());
    };
    if !matches!(tokio::time::timeout(TIMEOUT, is_stand_in(address)).await, Ok(Ok(true))) {
        return Ok(());
    }
    if !is_alone(etcd, server) {
        return Err(StandInError(server.clone()));
    }
    tracing::warn!("the etcd at {server} is a stand-in that stores nothing: keeping all objects in memory");
    storage.etcd = None;
    storage.ephemeral = true;
    Ok(())
}

/// Returns true if the settings have no other etcd server.
fn is_alone(etcd: &Etcd, server: &str) -> bool {
    etcd.servers.len() == 1 && etcd.overrides.values().flatten().all(|other| other == server)
}

/// Returns the address in an `http` URL, if it is on this machine.
fn local(url: &str) -> Option<&str> {
    let address = url.strip_prefix("http://")?;
    let address = address.strip_suffix('/').unwrap_or(address);
    let (host, _port) = address.rsplit_once(':')?;
    let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    (host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())).then_some(address)
}

async fn is_stand_in(address: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // A substitute's response is shorter than this; a longer one is another server's.
    stream.take(4096).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Ok(false) };
    Ok(head.starts_with("HTTP/1.1 200 ") && body == DOCUMENT)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_plain_loopback_servers_are_probed() {
        for (url, want) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379")),
            ("http://localhost:2379/", Some("localhost:2379")),
            ("http://[::1]:7", Some("[::1]:7")),
            ("https://127.0.0.1:2379", None),
            ("http://192.0.2.1:2379", None),
            ("http://etcd:2379", None),
            ("127.0.0.1:2379", None),
        ] {
            assert_eq!(local(url), want, "{url}");
        }
    }

    fn storage(servers: &[&str], overrides: &[&str]) -> Storage {
        let owned = |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        let overrides =
            overrides.iter().map(|server| (binnacle_meta::GroupResource::new("", "events"), owned(&[server])));
        let etcd = Etcd {
            servers: owned(servers),
            overrides: overrides.collect::<HashMap<_, _>>(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            root: "/registry/".to_owned(),
        };
        Storage { etcd: Some(etcd), ..Storage::default() }
    }

    #[tokio::test]
    async fn replaces_only_a_lone_stand_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stand_in = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || binnacle_etcd_stand_in::serve(listener));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let closed = format!("http://{closed}");
        for (servers, overrides, want) in [
            (&[&stand_in[..]][..], &[][..], Ok(true)),
            (&[&stand_in], &[&stand_in[..]], Ok(true)),
            (&[&stand_in], &["http://192.0.2.1:1"], Err(())),
            (&["https://192.0.2.1:1", &stand_in], &[], Err(())),
            (&[&closed], &[], Ok(false)),
            (&["https://127.0.0.1:1"], &[], Ok(false)),
        ] {
            let mut storage = storage(servers, overrides);
            let replaced = replace_stand_in(&mut storage).await.map(|()| storage.ephemeral && storage.etcd.is_none());
            assert_eq!(replaced.map_err(drop), want, "{servers:?} {overrides:?}");
        }
    }
}
