//! Large stores: how start, memory, reads and writes of a server grow from thousands to millions of objects.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Server, ServerEnvironment};
use serde_json::json;

use crate::chart::{Chart, Series};
use crate::client::Clients;
use crate::files::size_of_files;
use crate::load::{self, Row};
use crate::mixture::{self, Mixture};
use crate::process;

const COUNTS: [usize; 4] = [10_000, 100_000, 1_000_000, 3_000_000];
/// Creates and updates that are measured after a start.
const CREATES: usize = 5_000;
/// The time of updates, in which several compactions and much rewriting happen.
const UPDATES: Duration = Duration::from_secs(50);
const FLAGS: &[&str] = &["--etcd-compaction-interval=20s"];
/// The time after which the sizes of objects are known.
const COUNTED_AFTER: Duration = Duration::from_secs(180);
/// The time after writes until memory is read.
const REST: Duration = Duration::from_secs(12);
const PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];

/// The measurements with one number of objects. Times are in milliseconds.
struct Point {
    objects: usize,
    /// The bytes of all stored values.
    values: u64,
    /// The microseconds of processor time of a create while filling.
    create_cpu: f64,
    start: Start,
    resident: u64,
    first_list: f64,
    create_p99: f64,
    update_p99: f64,
    longest_update: f64,
    /// Updates that took more than 50 ms.
    slow_updates: usize,
    updates: usize,
    /// After updates, compactions and rewriting.
    resident_later: u64,
    disk: u64,
}

/// What was seen of a start.
struct Start {
    /// Until the first response to a request for health, whatever its status.
    answered: f64,
    /// Until something is written to the log.
    logged: f64,
    /// Until the server is ready.
    ready: f64,
    cpu: f64,
    peak: u64,
}

/// Measures the curves and writes the charts to `directory`. With a `scale` below 1 there are fewer objects.
pub(crate) async fn run(directory: &str, counts: &[usize], scale: f64) {
    let counts = if counts.is_empty() { COUNTS.to_vec() } else { counts.to_vec() };
    let mut server = Server::durable_in(ServerEnvironment::default(), FLAGS);
    let clients = Clients::connect(server.address, &server.admin(), 4).await;
    let mixture = Mixture::prepare(&clients).await;
    let updates = UPDATES.mul_f64(scale.clamp(0.02, 1.0));
    println!("{HEAD}");
    let mut points = Vec::new();
    let mut there = 0;
    for count in counts {
        let count = ((count as f64 * scale) as usize).max(100);
        let point = measure(&mut server, &mixture, there, count, updates, Path::new(directory)).await;
        there = count + CREATES.min(count);
        println!("{}", point.row());
        points.push(point);
    }
    for (name, chart) in [("large-times.svg", times(&points)), ("large-memory.svg", memory(&points))] {
        let path = Path::new(directory).join(name);
        std::fs::write(&path, chart.svg()).unwrap();
        println!("wrote {}", path.display());
    }
}

async fn measure(
    server: &mut Server,
    mixture: &Mixture,
    there: usize,
    count: usize,
    updates: Duration,
    directory: &Path,
) -> Point {
    let clients = Clients::connect(server.address, &server.admin(), 4).await;
    mixture.namespaces(&clients, there, count + CREATES).await;
    let fill = create(&clients, server.id(), mixture, there, count.saturating_sub(there), 64).await;
    drop(clients);
    server.terminate();
    let (start, clients) = observed_start(server).await;
    let began = Instant::now();
    clients.send(0, "GET", &mixture::list_path(count / 2), &[], Vec::new()).await;
    let first_list = milliseconds(began.elapsed());
    // A resource is in memory once somebody has asked for it.
    for path in mixture::collections() {
        clients.send(0, "GET", &format!("{path}?limit=1"), &[], Vec::new()).await;
    }
    let values = values(&clients, count).await;
    let resident = process::resident(server.id()).0;
    keep_heap_profile(&clients, &directory.join(format!("heap-{count}.pb.gz"))).await;
    let created = create(&clients, server.id(), mixture, count, CREATES.min(count), 8).await;
    let updated = update(&clients, server.id(), count, updates).await;
    tokio::time::sleep(REST.min(updates)).await;
    Point {
        objects: count,
        values,
        create_cpu: fill.cpu.as_secs_f64() * 1e6,
        start,
        resident,
        first_list,
        create_p99: created.percentile(99),
        update_p99: updated.percentile(99),
        longest_update: updated.percentile(100),
        slow_updates: updated.latencies.iter().filter(|took| **took > Duration::from_millis(50)).count(),
        updates: updated.latencies.len(),
        resident_later: process::resident(server.id()).0,
        disk: size_of_files(&server.temp().path().join("data")),
    }
}

async fn create(clients: &Clients, pid: u32, mixture: &Mixture, from: usize, count: usize, at_once: usize) -> Row {
    let row = load::run("create", pid, count, at_once, async |n| {
        let (path, body) = mixture.object(from + n);
        clients.send(n, "POST", &path, &[], body.into()).await
    });
    row.await
}

/// Changes objects all over the store, for a time.
async fn update(clients: &Clients, pid: u32, objects: usize, time: Duration) -> Row {
    let until = Instant::now() + time;
    let mut rows: Vec<Row> = Vec::new();
    while Instant::now() < until {
        let turn = rows.len();
        let row = load::run("update", pid, objects.min(4_000), 8, async |n| {
            let text = format!("{turn}-{n}");
            let patch = json!({"metadata": {"annotations": {"example.com/turn": text}}}).to_string();
            let path = mixture::object_path((turn * 4_000 + n).wrapping_mul(7_919) % objects);
            clients.send(n, "PATCH", &path, PATCH, patch.into()).await
        });
        rows.push(row.await);
    }
    let mut all = rows.pop().unwrap();
    for row in rows {
        all.latencies.extend(row.latencies);
    }
    all.latencies.sort();
    all
}

/// Starts the server again, while a thread reads its log and requests its health.
async fn observed_start(server: &mut Server) -> (Start, Clients) {
    let (log, address) = (server.temp().path().join("stderr"), server.address);
    let began = Instant::now();
    let done = Arc::new(AtomicBool::new(false));
    let watched = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            let (mut logged, mut answered) = (None, None);
            // The log of the last process is replaced when the next one starts.
            let before = std::fs::metadata(&log).ok().and_then(|log| log.modified().ok());
            while !done.load(Ordering::Relaxed) {
                let found = std::fs::metadata(&log).ok().filter(|log| log.len() > 0 && log.modified().ok() != before);
                if found.is_some() {
                    logged.get_or_insert_with(|| milliseconds(began.elapsed()));
                }
                if answered.is_none() && std::net::TcpStream::connect(address).is_ok() {
                    answered = Some(milliseconds(began.elapsed()));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            (logged, answered)
        })
    };
    server.restart();
    let clients = Clients::connect(server.address, &server.admin(), 4).await;
    clients.wait_until_ready().await;
    let ready = milliseconds(began.elapsed());
    done.store(true, Ordering::Relaxed);
    let (logged, answered) = watched.join().unwrap();
    let start = Start {
        answered: answered.unwrap_or(ready),
        logged: logged.unwrap_or(ready),
        ready,
        cpu: process::cpu_seconds(server.id()) * 1e3,
        peak: process::resident(server.id()).1,
    };
    (start, clients)
}

/// Writes a profile of the heap to a file if the server collects one (`_RJEM_MALLOC_CONF` in its environment).
async fn keep_heap_profile(clients: &Clients, path: &Path) {
    if std::env::var("_RJEM_MALLOC_CONF").is_ok_and(|set| set.contains("prof:true")) {
        std::fs::write(path, clients.get("/debug/pprof/heap").await).unwrap();
        println!("wrote {}", path.display());
    }
}

/// Returns the bytes of all stored values. The server counts those of built-in resources once a minute; custom resources
/// are as large as one of them, read.
async fn values(clients: &Clients, count: usize) -> u64 {
    let began = Instant::now();
    let custom = clients.get(&mixture::object_path(mixture::FIRST_CUSTOM)).await.len();
    loop {
        let metrics = clients.get("/metrics").await;
        let text = String::from_utf8_lossy(&metrics);
        let of = |name: &str| {
            let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.filter(|value| *value > 0.0).sum::<f64>()
        };
        let (objects, sizes) = (of("apiserver_resource_objects"), of("apiserver_resource_size_estimate_bytes"));
        let builtin = count as f64 * (1.0 - mixture::CUSTOM);
        // The size of endpoint slices was requested last; before, it is unknown.
        let are_all = text.lines().any(|line| {
            line.contains("size_estimate_bytes{") && line.contains("\"endpointslices\"") && !line.ends_with(" -1")
        });
        if are_all && objects >= builtin {
            return (sizes + count as f64 * mixture::CUSTOM * custom as f64) as u64;
        }
        assert!(began.elapsed() < COUNTED_AFTER, "no sizes of all objects: {sizes} of {objects}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const HEAD: &str = "| objects | values MB | create CPU us | log, socket, ready ms | CPU ms | peak, resident MB | memory beyond 1.3 x values, B each \
     | first list ms | create p99 ms | update p99, longest ms | above 50 ms | resident later MB | disk MB |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

impl Point {
    /// Returns the bytes of memory for each object in addition to its value.
    fn beyond(&self, factor: f64) -> f64 {
        (self.resident as f64 - factor * self.values as f64) / self.objects as f64
    }

    fn row(&self) -> String {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "| {} | {:.0} | {:.1} | {:.0}, {:.0}, {:.0} | {:.0} | {:.0}, {:.0} | {:.0} | {:.1} | {:.1} | {:.1}, {:.1} | {} of {} | {:.0} | {:.0} |",
            self.objects,
            megabytes(self.values),
            self.create_cpu,
            self.start.logged,
            self.start.answered,
            self.start.ready,
            self.start.cpu,
            megabytes(self.start.peak),
            megabytes(self.resident),
            self.beyond(1.3),
            self.first_list,
            self.create_p99,
            self.update_p99,
            self.longest_update,
            self.slow_updates,
            self.updates,
            megabytes(self.resident_later),
            megabytes(self.disk),
        )
    }
}

fn series(name: &str, points: &[Point], value: impl Fn(&Point) -> f64) -> Series {
    let points = points.iter().map(|point| (point.objects as f64, value(point)));
    Series { name: name.to_owned(), points: points.collect() }
}

fn times(points: &[Point]) -> Chart {
    let series = vec![
        series("start until ready", points, |point| point.start.ready),
        series("first list of a namespace", points, |point| point.first_list),
        series("create, p99", points, |point| point.create_p99),
        series("longest update beside compactions", points, |point| point.longest_update),
    ];
    Chart { title: "Times over objects of 1 KB", x: "objects", y: "milliseconds", series }
}

fn memory(points: &[Point]) -> Chart {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let series = vec![
        series("peak of the start", points, |point| megabytes(point.start.peak)),
        series("resident after the start", points, |point| megabytes(point.resident)),
        series("stored values", points, |point| megabytes(point.values)),
        series("files", points, |point| megabytes(point.disk)),
    ];
    Chart { title: "Memory and disk over objects of 1 KB", x: "objects", y: "MB", series }
}
