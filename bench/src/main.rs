//! `cargo run --release -p binnacle-bench -- [SCENARIO...]` starts a durable server with an empty directory, measures
//! it, and prints a table. See `bench/README.md`.
//!
//! A helper that cannot do its part ends the run: it panics with what it saw.

#![allow(clippy::unwrap_used, reason = "what cannot be measured ends the run")]

mod chart;
mod client;
mod curves;
mod load;
mod objects;
mod process;
mod scenarios;

use crate::scenarios::{Bench, SCENARIOS};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => {
            println!("usage: binnacle-bench [SCENARIO...] | curves DIRECTORY\n\nScenarios:");
            for scenario in SCENARIOS {
                println!("  {:<18} {}", scenario.name, scenario.about);
            }
        }
        Some("curves") => curves::run(arguments.get(1).map_or("docs", String::as_str)).await,
        _ => {
            if let Some(unknown) = arguments.iter().find(|name| SCENARIOS.iter().all(|known| known.name != **name)) {
                eprintln!("no scenario {unknown}; --help names them");
                std::process::exit(1);
            }
            let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
            let mut bench = Bench::start().await;
            println!("{}", load::Row::HEAD);
            for scenario in SCENARIOS.iter().filter(|scenario| wanted(scenario.name)) {
                for row in (scenario.run)(&mut bench).await {
                    println!("{row}");
                }
            }
        }
    }
}
