//! Recorded writes of the reference server, replayed against the strategies: defaults, conversion, preparation and
//! validation in the order in which the registry calls them, compared with what the reference answered.
//!
//! The conversations are found in the folder `shared` beside the project or where `BINNACLE_SHARED` says.

#[path = "recorded/replay.rs"]
mod replay;

use replay::{Outcome, Replay};

#[test]
fn recorded_writes() {
    let Some(files) = replay::conversations() else { return };
    let mut compared = 0;
    let mut failures = Vec::new();
    for (area, cases) in files {
        for case in cases {
            let name = case["name"].as_str().unwrap_or_default();
            let mut replay = Replay::default();
            for (i, step) in case["steps"].as_array().into_iter().flatten().enumerate() {
                match replay.step(step) {
                    Outcome::NotOurs => {}
                    Outcome::Same => compared += 1,
                    Outcome::Differs(what) => failures.push(format!("{area}/{name} step {i}: {what}")),
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} differ:\n{}",
        failures.len(),
        compared + failures.len(),
        failures.join("\n")
    );
    assert!(compared > 300, "only {compared} steps were compared");
}
