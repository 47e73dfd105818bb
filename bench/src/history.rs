//! A long history: how memory, files and the start of a server grow with writes that are kept for a day.

use std::time::{Duration, Instant};

use binnacle_testkit::{Server, ServerEnvironment};
use serde_json::json;

use crate::client::Clients;
use crate::files::size_of_files;
use crate::load;
use crate::process;

/// The numbers of writes at which the server is measured.
const WRITES: [usize; 3] = [500_000, 1_000_000, 2_000_000];
const FLAGS: &[&str] = &["--history-retention=24h"];
const OBJECTS: usize = 1_000;
/// The length of the value that each write changes.
const VALUE: usize = 700;
/// The time after writes until memory is read.
const REST: Duration = Duration::from_secs(10);
const PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];

/// Prints a row for each number of writes.
pub(crate) async fn run(scale: f64) {
    let mut server = Server::durable_in(ServerEnvironment::default(), FLAGS);
    println!("| writes | a second | CPU us | resident MB | files MB | ready ms | read of the first version ms |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut there = 0;
    let mut first = 0;
    for writes in WRITES {
        let writes = ((writes as f64 * scale) as usize).max(OBJECTS * 2);
        let clients = Clients::connect(server.address, &server.admin(), 4).await;
        if there == 0 {
            load::run("create", server.id(), OBJECTS, 64, async |n| {
                let body = json!({"metadata": {"name": name(n)}, "data": {"value": value(n)}}).to_string();
                clients.send(n, "POST", "/api/v1/namespaces/default/configmaps", &[], body.into()).await
            })
            .await;
            there = OBJECTS;
            first = version(&clients).await;
        }
        let row = load::run("update", server.id(), writes - there, 64, async |n| {
            let body = json!({"data": {"value": value(there + n)}}).to_string();
            let path = format!("/api/v1/namespaces/default/configmaps/{}", name(n));
            clients.send(n, "PATCH", &path, PATCH, body.into()).await
        });
        let row = row.await;
        there = writes;
        tokio::time::sleep(REST.mul_f64(scale.clamp(0.02, 1.0))).await;
        let resident = process::resident(server.id()).0;
        let files = size_of_files(&server.temp().path().join("data"));
        server.terminate();
        let began = Instant::now();
        server.restart();
        let clients = Clients::connect(server.address, &server.admin(), 1).await;
        clients.wait_until_ready().await;
        let ready = began.elapsed();
        let began = Instant::now();
        let path = format!("/at/{first}/api/v1/namespaces/default/configmaps/{}", name(0));
        let read = clients.send(0, "GET", &path, &[], Vec::new()).await;
        assert_eq!(read.status, 200, "the first version is kept");
        println!(
            "| {there} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} |",
            row.count as f64 / row.took.as_secs_f64(),
            row.cpu.as_secs_f64() * 1e6,
            resident as f64 / 1e6,
            files as f64 / 1e6,
            ready.as_secs_f64() * 1e3,
            began.elapsed().as_secs_f64() * 1e3,
        );
    }
}

fn name(n: usize) -> String {
    format!("map-{:04}", n % OBJECTS)
}

/// Returns a text that no other write has.
fn value(n: usize) -> String {
    format!("{n:0>VALUE$}")
}

/// Returns the resource version of the first object.
async fn version(clients: &Clients) -> u64 {
    let object = clients.get(&format!("/api/v1/namespaces/default/configmaps/{}", name(0))).await;
    let object: serde_json::Value = serde_json::from_slice(&object).unwrap();
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap()
}
