//! Running of all cases against one server, several at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Area, Case};
use crate::endpoint::Endpoint;
use crate::replay::replay;

/// The number of cases that run at the same time.
const AT_ONCE: usize = 4;

/// The number of cases that ran, and a report for each failed one.
#[derive(Debug, Default)]
pub struct Results {
    pub ran: usize,
    pub failures: Vec<String>,
}

/// Runs the cases whose `area/name` contains the filter; exclusive ones run alone, after all others.
pub async fn run(endpoint: &Endpoint, areas: Vec<Area>, filter: &str) -> Results {
    let cases = areas.into_iter().flat_map(|area| {
        let title = move |case: Case| (format!("{}/{}", area.area, case.head.name), case);
        area.cases.into_iter().map(title)
    });
    let chosen = cases.filter(|(title, _)| title.contains(filter));
    let (alone, together): (Vec<_>, Vec<_>) = chosen.partition(|(_, case)| case.head.exclusive);
    let mut results = Results { ran: alone.len() + together.len(), failures: Vec::new() };
    for (cases, at_once) in [(together, AT_ONCE), (alone, 1)] {
        results.failures.extend(run_some(endpoint, Arc::new(cases), at_once).await);
    }
    results.failures.sort();
    results
}

async fn run_some(endpoint: &Endpoint, cases: Arc<Vec<(String, Case)>>, at_once: usize) -> Vec<String> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let (endpoint, cases, next) = (endpoint.clone(), cases.clone(), next.clone());
        workers.spawn(async move {
            let mut failures = Vec::new();
            while let Some((title, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = replay(&endpoint, case).await {
                    failures.push(format!("{title} ({})\n  {error}", case.head.about));
                }
            }
            failures
        });
    }
    workers.join_all().await.into_iter().flatten().collect()
}
