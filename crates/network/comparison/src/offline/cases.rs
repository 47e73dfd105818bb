//! Runs recorded cases on both servers, and compares their steps.

use std::path::Path;

use futures::{StreamExt, stream};
use serde_json::Value;

use super::Options;
use crate::case::{Area, Case, Step, parse_supported, read_supported};
use crate::difference::differences;
use crate::explained::Rules;
use crate::replay::{NOTHING_TO_CAPTURE, record};
use crate::report::Report;
use crate::server_values;
use crate::subject::Subject;
use crate::verdict::{Verdict, verdict};

/// The number of cases at a time.
const AT_ONCE: usize = 4;

/// Runs the cases of a directory or file.
pub(super) async fn run(options: &Options, path: &Path, report: &mut Report) -> Result<(), String> {
    let areas = match &options.variants {
        Some(variants) => variants.of(path)?,
        None => {
            let (areas, unsupported) = read(path)?;
            for _ in unsupported {
                report.skip("cases with steps or hooks that are not supported");
            }
            areas
        }
    };
    let titled = |area: Area| {
        let name = area.area;
        area.cases.into_iter().map(move |case| (format!("{name}/{}", case.head.name), case))
    };
    let all = areas.into_iter().flat_map(titled).filter(|(title, _)| title.contains(&options.filter));
    let (alone, together): (Vec<_>, Vec<_>) = all.partition(|(_, case)| case.head.exclusive);
    for (cases, at_once) in [(together, AT_ONCE), (alone, 1)] {
        let mut done = stream::iter(cases)
            .map(|(title, case)| async { (both(options, &case).await, title, case) })
            .buffer_unordered(at_once);
        while let Some((recorded, title, case)) = done.next().await {
            add(report, &title, &case, recorded);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<(Vec<Area>, Vec<String>), String> {
    if path.is_dir() {
        return read_supported(path);
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (area, unsupported) = parse_supported(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((vec![area], unsupported))
}

type Recording = Result<Vec<Option<Value>>, String>;

/// Runs a case on one server after the other, because both may use the same store.
async fn both(options: &Options, case: &Case) -> [Recording; 2] {
    let [first, second] = &options.servers;
    [record(first, case).await, record(second, case).await]
}

fn add(report: &mut Report, title: &str, case: &Case, [expected, got]: [Recording; 2]) {
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        // A variant whose response lacks a value that later steps need.
        (Err(first), Err(second)) if [&first, &second].iter().all(|error| error.contains(NOTHING_TO_CAPTURE)) => {
            return report.skip("cases that neither server can complete");
        }
        (Err(first), Err(second)) => return report.fail(format!("{title}: on both servers: {first}; {second}")),
        (Err(error), _) => return report.fail(format!("{title}: only on the first server: {error}")),
        (_, Err(error)) => return report.fail(format!("{title}: only on the second server: {error}")),
    };
    for (number, step) in case.steps.iter().enumerate() {
        let (Some(Some(expected)), Some(Some(got))) = (expected.get(number), got.get(number)) else { continue };
        let (mut expected, mut got) = (expected.clone(), got.clone());
        [&mut expected, &mut got].into_iter().for_each(server_values::normalize_texts);
        let subject = subject(step);
        let found = differences(&expected, &got);
        let verdict = verdict(&subject, Rules::reviewed(), expected, got, found);
        let is_last = matches!(verdict, Verdict::Different(_));
        report.add_step(&format!("{title} step {}", number + 1), &subject, verdict);
        // Later steps depend on earlier ones.
        if is_last {
            return;
        }
    }
}

fn subject(step: &Step) -> Subject {
    let method = step.method.as_deref().unwrap_or(if step.watch.is_some() { "GET" } else { "EVENTS" });
    let data = step.body.as_ref().map(|body| body.to_string().into_bytes());
    Subject::of_step(method, &step.path, data)
}
