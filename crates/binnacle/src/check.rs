//! Whether a data directory is whole.

use std::path::Path;

use binnacle_store_embedded::{Checked, check};
use serde_json::{Value, json};

use crate::Error;
use crate::place::store_dir;
use crate::text;

/// Checks the store in a data directory. Blocks for as long as reading all of it takes.
pub(crate) fn run(dir: &Path) -> Result<Checked, Error> {
    Ok(check(&store_dir(dir))?)
}

pub(crate) fn whole(checked: &Checked) -> bool {
    checked.problems.is_empty()
}

pub(crate) fn to_text(checked: &Checked) -> String {
    let mut out = format!(
        "{} records ({}) up to revision {}, history since {}, {} keys.\n",
        checked.records,
        text::bytes(checked.record_bytes),
        checked.revision,
        checked.compacted,
        checked.keys,
    );
    for problem in &checked.problems {
        out.push_str(&format!("damaged: {problem}\n"));
    }
    if checked.more_problems > 0 {
        out.push_str(&format!("and {} more\n", checked.more_problems));
    }
    out.push_str(if whole(checked) { "The data is whole.\n" } else { "The data is damaged.\n" });
    out
}

pub(crate) fn to_json(checked: &Checked) -> Value {
    json!({
        "whole": whole(checked),
        "revision": checked.revision,
        "compactedRevision": checked.compacted,
        "records": checked.records,
        "recordBytes": checked.record_bytes,
        "keys": checked.keys,
        "problems": checked.problems,
        "moreProblems": checked.more_problems,
    })
}
