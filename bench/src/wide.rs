//! Stores with many objects that the server itself works with: namespaces, services, definitions, and events that end.

use std::time::{Duration, Instant};

use binnacle_testkit::{Server, ServerEnvironment};
use serde_json::json;

use crate::client::Clients;
use crate::{load, process};

/// The largest numbers of namespaces, services and definitions, and the parts of them that are measured.
const NAMESPACES: usize = 100_000;
const SERVICES: usize = 50_000;
const DEFINITIONS: usize = 10_000;
const PARTS: [f64; 3] = [0.1, 0.3, 1.0];
/// The range for the addresses of that many services.
const RANGE: &str = "--service-cluster-ip-range=10.96.0.0/12";
const IDLE: Duration = Duration::from_secs(60);
const EVENTS: usize = 1_000_000;
/// Events end this long after their creation.
const TTL: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures a server with increasing numbers of namespaces, services and definitions.
pub(crate) async fn run(scale: f64) {
    let mut server = Server::durable_in(ServerEnvironment::default(), &[RANGE]);
    println!(
        "| namespaces, services, definitions | create us each | ready ms, CPU ms | CPU ms until it rests | idle CPU | resident MB | discovery first, again ms |\n\
         | --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut there = [0; 3];
    for part in PARTS {
        let wanted = [NAMESPACES, SERVICES, DEFINITIONS].map(|count| ((count as f64 * scale * part) as usize).max(2));
        let clients = Clients::connect(server.address, &server.admin(), 4).await;
        let mut costs = Vec::new();
        for (kind, (from, to)) in there.into_iter().zip(wanted).enumerate() {
            let row = load::run("", server.id(), to - from, 32, async |n| {
                let (path, body) = object(kind, from + n);
                clients.send(n, "POST", path, &[], body.to_string().into()).await
            });
            costs.push(format!("{:.0}", row.await.cpu.as_secs_f64() * 1e6));
        }
        there = wanted;
        drop(clients);
        let words = wanted.map(|count| count.to_string()).join(", ");
        println!(
            "| {words} | {} | {} |",
            costs.join(", "),
            restarted(&mut server, IDLE.mul_f64(scale.clamp(0.05, 1.0))).await
        );
    }
}

/// Restarts the server, and measures it until it rests, at rest, and by the discovery of all resources.
async fn restarted(server: &mut Server, idle: Duration) -> String {
    server.terminate();
    let began = Instant::now();
    server.restart();
    let clients = Clients::connect(server.address, &server.admin(), 1).await;
    clients.wait_until_ready().await;
    let (ready, ready_cpu) = (began.elapsed().as_secs_f64() * 1e3, process::cpu_seconds(server.id()) * 1e3);
    // Controllers read everything once after the start. A period with hardly any work in it ends that.
    let began = Instant::now();
    loop {
        let before = process::cpu_seconds(server.id());
        tokio::time::sleep(idle / 10).await;
        if process::cpu_seconds(server.id()) - before <= 0.03 * (idle / 10).as_secs_f64() || began.elapsed() > PATIENCE
        {
            break;
        }
    }
    let rested_cpu = process::cpu_seconds(server.id());
    tokio::time::sleep(idle).await;
    let idle_cpu = (process::cpu_seconds(server.id()) - rested_cpu) / idle.as_secs_f64();
    let resident = process::resident(server.id()).0 as f64 / 1e6;
    let aggregated = &[("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let mut discovery = Vec::new();
    for _ in 0..2 {
        let began = Instant::now();
        clients.send(0, "GET", "/apis", aggregated, Vec::new()).await;
        discovery.push(format!("{:.0}", began.elapsed().as_secs_f64() * 1e3));
    }
    format!(
        "{ready:.0}, {ready_cpu:.0} | {:.0} | {idle_cpu:.4} | {resident:.0} | {}",
        rested_cpu * 1e3,
        discovery.join(", ")
    )
}

fn object(kind: usize, n: usize) -> (&'static str, serde_json::Value) {
    match kind {
        0 => ("/api/v1/namespaces", json!({"metadata": {"name": format!("wide-{n:06}")}})),
        1 => {
            let spec = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
            (
                "/api/v1/namespaces/default/services",
                json!({"metadata": {"name": format!("service-{n:06}")}, "spec": spec}),
            )
        }
        _ => ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(n)),
    }
}

fn definition(n: usize) -> serde_json::Value {
    // As in real clusters, groups have tens of definitions.
    let (group, plural) = (format!("group{}.example.com", n / 40), format!("things{n}"));
    let spec = json!({"type": "object", "properties": {
        "text": {"type": "string"}, "size": {"type": "integer", "minimum": 0}, "parts": {"type": "array", "items": {"type": "string"}},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": format!("thing{n}"), "kind": format!("Thing{n}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// Creates events with a short life, and measures other requests while they end.
pub(crate) async fn events(scale: f64) {
    let ttl = TTL.mul_f64(scale.clamp(0.1, 1.0));
    let flag = format!("--event-ttl={}s", ttl.as_secs().max(1));
    let server = Server::durable_in(ServerEnvironment::default(), &[&flag]);
    let clients = Clients::connect(server.address, &server.admin(), 4).await;
    let count = ((EVENTS as f64 * scale) as usize).max(100);
    println!("{}", load::Row::HEAD);
    let create = load::run(format!("create {count} events"), server.id(), count, 64, async |n| {
        let event = json!({
            "metadata": {"name": format!("event-{n:07}")}, "reason": "Scheduled", "message": "Successfully assigned it to a node", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": format!("pod-{}", n / 5)},
            "source": {"component": "bench"}, "count": 1,
        });
        clients.send(n, "POST", "/api/v1/namespaces/default/events", &[], event.to_string().into()).await
    });
    println!("{}", create.await);
    let (began, cpu) = (Instant::now(), process::cpu_seconds(server.id()));
    // Some have ended while others were created.
    let (mut writes, mut counts, mut left) = (Vec::new(), Vec::new(), remaining(&clients).await);
    while left > 0 {
        assert!(began.elapsed() < PATIENCE, "{left} events are left");
        let second = Instant::now();
        while second.elapsed() < Duration::from_secs(1) {
            let written = Instant::now();
            let body = json!({"metadata": {"name": format!("probe-{}", writes.len())}}).to_string();
            clients.send(0, "POST", "/api/v1/namespaces/default/configmaps", &[], body.into()).await;
            writes.push(written.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let now = remaining(&clients).await;
        counts.push(left.saturating_sub(now));
        left = now;
    }
    writes.sort();
    let percentile = |percent: usize| writes[(writes.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "ended within {:.0} s, at most {} a second, {:.1} us of CPU each; a write beside it: p50 {:.1}, p99 {:.1}, longest {:.1} ms",
        began.elapsed().as_secs_f64(),
        counts.iter().max().unwrap(),
        (process::cpu_seconds(server.id()) - cpu) * 1e6 / count as f64,
        percentile(50),
        percentile(99),
        percentile(100)
    );
}

/// Returns the number of events. The first requests for so many are refused until their cache is filled.
async fn remaining(clients: &Clients) -> usize {
    let began = Instant::now();
    loop {
        let page = clients.get("/api/v1/namespaces/default/events?limit=1").await;
        let page: serde_json::Value = serde_json::from_slice(&page).unwrap();
        if let Some(items) = page["items"].as_array() {
            let others = page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
            return items.len() + others as usize;
        }
        assert!(page["code"] == 429 && began.elapsed() < PATIENCE, "{page}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
