//! TLS connections to etcd, with certificates on both sides.

use std::path::PathBuf;

use binnacle_store::Store;
use binnacle_store_etcd::{EtcdStore, TlsPaths};
use binnacle_testkit::{Authority, Etcd, EtcdTls};

use crate::support::options;

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn authenticates_both_sides_with_certificates() {
    let files = Authority::make();
    let other_authority = Authority::make();
    let (certificate, key) = files.issue("etcd");
    let etcd = Etcd::secure(&EtcdTls { ca: &files.ca(), certificate: &certificate, key: &key });
    let paths = |ca: PathBuf, identity: Option<(PathBuf, PathBuf)>| {
        let (certificate, key) = identity.unzip();
        TlsPaths { ca: Some(ca), certificate, key }
    };
    let bare: Vec<String> =
        etcd.endpoints().iter().map(|endpoint| endpoint.trim_start_matches("https://").to_owned()).collect();
    // endpoints, files, whether the connection succeeds
    for (endpoints, tls, good) in [
        (etcd.endpoints(), paths(files.ca(), Some(files.issue("server"))), true),
        (bare, paths(files.ca(), Some(files.issue("server"))), true),
        (etcd.endpoints(), paths(files.ca(), None), false),
        (etcd.endpoints(), paths(files.ca(), Some(other_authority.issue("stranger"))), false),
        (etcd.endpoints(), paths(other_authority.ca(), Some(files.issue("server"))), false),
    ] {
        let mut options = options(endpoints);
        options.tls = tls.clone();
        let store = EtcdStore::new(&options).expect("the files are good");
        let answer = store.current_revision().await;
        assert_eq!(answer.is_ok(), good, "{tls:?}: {answer:?}");
    }
}
