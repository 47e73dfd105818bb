//! Sends single requests to both servers.

use std::time::Duration;

use futures::{StreamExt, stream};

use super::{Options, watches};
use crate::explained::Rules;
use crate::report::Report;
use crate::subject::{Kind, Subject};
use crate::verdict::{Stores, Verdict, compare, version_of};

/// The number of requests at a time.
const AT_ONCE: usize = 4;

/// Sends all requests to both servers, and adds the results to the report.
pub(super) async fn run(options: &Options, subjects: Vec<Subject>, report: &mut Report) {
    let pace = options.rate.map(|rate| tokio::time::interval(Duration::from_secs_f64(1.0 / rate)));
    // Requests are started in order, and at the wanted rate.
    let paced = stream::unfold((subjects.into_iter(), pace), |(mut waiting, mut pace)| async {
        let subject = waiting.next()?;
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        Some((subject, (waiting, pace)))
    });
    let mut done = std::pin::pin!(
        paced.map(|subject| async { (exchange(options, &subject).await, subject) }).buffer_unordered(AT_ONCE)
    );
    while let Some((verdict, subject)) = done.next().await {
        report.add(&subject, verdict);
    }
}

/// Sends a request to both servers. In the same store, the second one is sent at the version of the first response.
async fn exchange(options: &Options, subject: &Subject) -> Verdict<'static> {
    if subject.kind == Kind::Watch {
        return watches::exchange(options, subject).await;
    }
    let [first, second] = &options.servers;
    let answers = match options.stores {
        Stores::Separate => tokio::join!(first.request(&subject.outgoing), second.request(&subject.outgoing)),
        Stores::Same => {
            let answer = first.request(&subject.outgoing).await;
            let version = match &answer {
                Ok(answer) if subject.kind == Kind::List => version_of(answer),
                _ => String::new(),
            };
            (answer, second.request(&subject.at_version(&version)).await)
        }
    };
    match answers {
        (Ok(expected), Ok(got)) => compare(subject, options.stores, Rules::reviewed(), &expected, &got),
        (Err(error), _) => Verdict::Failed(format!("{}: {error}", first.address())),
        (_, Err(error)) => Verdict::Failed(format!("{}: {error}", second.address())),
    }
}
