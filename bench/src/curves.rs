//! Curves of the cost by number of objects and watchers, measured and drawn to files.

use std::path::Path;

use serde_json::Value;

use crate::chart::{Chart, Series};
use crate::load;
use crate::objects;
use crate::scenarios::Bench;

const OBJECTS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const WATCHERS: [usize; 5] = [1, 100, 1_000, 5_000, 20_000];

/// Measures and draws the curves. With a `scale` below 1 they end at lower numbers.
pub(crate) async fn run(directory: &str, scale: f64) {
    let objects = over_objects(up_to(&OBJECTS, scale)).await;
    let watchers = over_watchers(up_to(&WATCHERS, scale)).await;
    for (name, chart) in [("cost-objects.svg", objects), ("cost-watchers.svg", watchers)] {
        let path = Path::new(directory).join(name);
        std::fs::write(&path, chart.svg()).unwrap();
        println!("wrote {}", path.display());
    }
}

/// Returns the points up to a part of the last one, at least the first.
fn up_to(points: &[usize], scale: f64) -> &[usize] {
    let most = points.last().map_or(0.0, |last| *last as f64 * scale);
    let count = points.iter().filter(|point| **point as f64 <= most).count();
    &points[..count.max(1)]
}

/// Measures the CPU time of single operations with increasing numbers of small objects.
async fn over_objects(counts: &[usize]) -> Chart {
    let bench = Bench::start(1.0).await;
    bench.namespace("curve").await;
    let pid = bench.server.id();
    let root = "/api/v1/namespaces/curve/configmaps";
    let mut there = 0;
    let names = ["create", "get", "list limit=100", "list by label, 1/1000"];
    let mut series: Vec<Series> = names.iter().map(|name| Series::new(name)).collect();
    for &target in counts {
        let from = there;
        let fill = load::run("create", pid, target - from, 64, async |n| {
            let body = objects::small(&format!("small-{:07}", from + n), from + n).to_string();
            bench.clients.send(n, "POST", root, &[], body.into()).await
        });
        let created = fill.await;
        there = target;
        let get = load::run("get", pid, 5_000, 32, async |n| {
            let path = format!("{root}/small-{:07}", n * 7919 % there);
            bench.clients.send(n, "GET", &path, &[], Vec::new()).await
        });
        let get = get.await;
        let page = format!("{root}?limit=100");
        let page = load::run("list limit=100", pid, 500, 4, async |n| {
            bench.clients.send(n, "GET", &page, &[], Vec::new()).await
        });
        let page = page.await;
        // The cost of this list, a thousandth of the objects, should depend on the returned objects only.
        let selected = format!("{root}?labelSelector=app%3Dapp-7");
        let list: Value = serde_json::from_slice(&bench.clients.get(&selected).await).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), there / 1000);
        let label = load::run("by label", pid, 100, 4, async |n| {
            bench.clients.send(n, "GET", &selected, &[], Vec::new()).await
        });
        let label = label.await;
        for (series, row) in series.iter_mut().zip([&created, &get, &page, &label]) {
            println!(
                "{target} objects: {} {:.1} us, {:.0} MB",
                row.name,
                row.cpu.as_secs_f64() * 1e6,
                row.resident as f64 / 1e6
            );
            series.points.push((target as f64, row.cpu.as_secs_f64() * 1e6));
        }
    }
    Chart { title: "CPU per operation over objects", x: "objects", y: "microseconds of CPU", series }
}

/// Measures the CPU time of an event with increasing numbers of watchers.
async fn over_watchers(counts: &[usize]) -> Chart {
    let mut bench = Bench::start(1.0).await;
    let mut series = vec![Series::new("event, per watcher"), Series::new("opening a watch")];
    for &watchers in counts {
        let writes = (200_000 / watchers).clamp(10, 2_000);
        let rows = bench.watchers(watchers, writes).await;
        for (series, row) in series.iter_mut().zip(rows.iter().rev()) {
            println!("{watchers} watchers: {} {:.1} us", row.name, row.cpu.as_secs_f64() * 1e6);
            series.points.push((watchers as f64, row.cpu.as_secs_f64() * 1e6));
        }
    }
    Chart { title: "CPU per event and watcher over watchers", x: "watchers", y: "microseconds of CPU", series }
}
