//! `cargo run --release -p binnacle-bench -- [SCENARIO...]` starts a durable server with an empty directory, measures
//! it, and prints a table. See `bench/README.md`.
//!
//! A helper that fails ends the run: it panics with the reason.

#![allow(clippy::unwrap_used, reason = "what cannot be measured ends the run")]

mod chart;
mod client;
mod curves;
mod files;
mod floor;
mod history;
mod large;
mod load;
mod mixture;
mod nodes;
mod objects;
mod process;
mod scenarios;
mod wide;

use std::path::Path;

use crate::scenarios::{Bench, SCENARIOS};

const USAGE: &str = "usage: binnacle-bench [--scale=PART] [SCENARIO...]
       binnacle-bench [--scale=PART] curves DIRECTORY
       binnacle-bench [--scale=PART] report DIRECTORY
       binnacle-bench [--scale=PART] floor
       binnacle-bench [--scale=PART] large DIRECTORY [OBJECTS...]
       binnacle-bench [--scale=PART] nodes DIRECTORY [NODES...]
       binnacle-bench [--scale=PART] renewals [LEASES...]
       binnacle-bench [--scale=PART] wide
       binnacle-bench [--scale=PART] expiry
       binnacle-bench [--scale=PART] history

Without a name all scenarios are measured. `curves` draws how costs grow into DIRECTORY, `report` does both and writes the
table into DIRECTORY/measured.md. `floor` starts no server: it tells what TLS and sockets alone cost for a delivered event.
`large` fills a store up to each number of objects, and draws how start, memory and pauses grow into DIRECTORY.
`nodes` does so with the connections, watches and heartbeats of nodes, and `renewals` with leases alone.
`wide` has a hundred thousand namespaces, with services and definitions, `expiry` a million events that end.
`history` writes a thousand objects two million times, and keeps all versions.
A scale below 1 (0.01) shows that everything works without taking long.

Scenarios:";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (flags, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let mut scale = 1.0;
    for flag in &flags {
        match flag.strip_prefix("--scale=").and_then(|scale| scale.parse().ok()) {
            Some(given) => scale = given,
            None => {
                println!("{USAGE}");
                for scenario in SCENARIOS {
                    println!("  {:<18} {}", scenario.name, scenario.about);
                }
                return;
            }
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["floor"] => floor::run(scale),
        ["curves", directory] => curves::run(directory, scale).await,
        ["large", directory, counts @ ..] => large::run(directory, &numbers(counts), scale).await,
        ["nodes", directory, counts @ ..] => nodes::run(directory, &numbers(counts), scale).await,
        ["renewals", counts @ ..] => nodes::leases(&numbers(counts), scale).await,
        ["wide"] => wide::run(scale).await,
        ["expiry"] => wide::events(scale).await,
        ["history"] => history::run(scale).await,
        ["report", directory] => {
            let table = measure(&[], scale).await;
            let path = Path::new(directory).join("measured.md");
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            let by_hand = before.find(BY_HAND).map_or("", |at| &before[at..]);
            std::fs::write(&path, report(&table, scale) + by_hand).unwrap();
            println!("wrote {}", path.display());
            curves::run(directory, scale).await;
        }
        wanted => drop(measure(wanted, scale).await),
    }
}

/// Reads the counts at the end of a command line.
fn numbers(words: &[&str]) -> Vec<usize> {
    words.iter().map(|word| word.parse().unwrap_or_else(|_| panic!("{word} is no number"))).collect()
}

/// From this heading on a report stays as it is.
const BY_HAND: &str = "\n## Beside kube-apiserver\n";

/// Prints the rows as they are measured, and returns the table.
async fn measure(wanted: &[&str], scale: f64) -> String {
    if let Some(unknown) = wanted.iter().find(|name| SCENARIOS.iter().all(|known| known.name != **name)) {
        eprintln!("no scenario {unknown}; --help names them");
        std::process::exit(1);
    }
    let mut bench = Bench::start(scale).await;
    let mut table = format!("{}\n", load::Row::HEAD);
    println!("{}", load::Row::HEAD);
    for scenario in SCENARIOS.iter().filter(|scenario| wanted.is_empty() || wanted.contains(&scenario.name)) {
        for row in (scenario.run)(&mut bench).await {
            println!("{row}");
            table.push_str(&format!("{row}\n"));
        }
    }
    table
}

fn report(table: &str, scale: f64) -> String {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = if scale < 1.0 { format!(" Scaled down to {scale}: these are no measurements.") } else { String::new() };
    let build = match std::env::var("BINNACLE_KUBE_APISERVER") {
        Ok(program) if program == "target/pgo/kube-apiserver" => "the build of `cargo xtask release`",
        Ok(_) => "a build that `BINNACLE_KUBE_APISERVER` named",
        Err(_) => "the build of `cargo build --release`",
    };
    let date = std::process::Command::new("date").args(["-u", "+%F"]).output();
    let date = date.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "# Measurements\n\nTo measure your machine, run:\n\n    cargo run --release -p binnacle-bench -- report docs\n\n\
         It writes the first table of this page and both charts. [Benchmarks](../bench/README.md) describes the scenarios and \
         columns.\nEach section names its date and command; costs are processor time of the server, and the load shares the \
         processors.\n\n\
         ## Operations\n\n{date}, {processors} processors, {build}.{part}\n\n\
         {table}\n![CPU per operation over objects](cost-objects.svg)\n\n![CPU per event and watcher over \
         watchers](cost-watchers.svg)\n"
    )
}
