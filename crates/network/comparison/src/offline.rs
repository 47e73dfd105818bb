//! Replays requests against two servers: from an audit log, a HAR file, recorded cases, or generated from discovery.

mod audit;
mod cases;
mod har;
mod reads;
mod refusals;
mod requests;
mod source;
mod variants;
mod watches;

use crate::endpoint::Endpoint;
use crate::report::Report;
use crate::verdict::Stores;

pub use self::source::Source;
pub use self::variants::Variants;

/// The options of a replay.
#[derive(Clone)]
pub struct Options {
    /// The servers. The responses of the first are the expectation.
    pub servers: [Endpoint; 2],
    pub stores: Stores,
    /// The maximum number of requests to each server per second.
    pub rate: Option<f64>,
    /// True to send writes, with `dryRun=All`.
    pub dry_run: bool,
    /// True to impersonate the user of each request in an audit log.
    pub impersonate: bool,
    /// The values of `Accept` with which each read of an audit log and each generated read is sent.
    pub accept: Vec<String>,
    /// Replays only cases whose `area/name` contains this text.
    pub filter: String,
    /// Changes recorded cases at random instead of replaying them as they are.
    pub variants: Option<Variants>,
}

/// Replays a source against two servers.
///
/// # Errors
/// If the source cannot be read, or if the discovery of the first server fails.
pub async fn run(options: &Options, source: &Source) -> Result<Report, String> {
    let mut report = Report::new(options.servers.each_ref().map(|server| server.address().to_owned()));
    match source {
        Source::Cases(path) => cases::run(options, path, &mut report).await?,
        Source::AuditLog(path) => {
            let subjects = audit::read(options, path, &mut report)?;
            requests::run(options, subjects, &mut report).await;
        }
        Source::Har(path) => {
            let subjects = har::read(options, path, &mut report)?;
            requests::run(options, subjects, &mut report).await;
        }
        Source::Discovery => {
            let subjects = reads::generate(options).await?;
            requests::run(options, subjects, &mut report).await;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use binnacle_webhook::Target;

    use super::Options;
    use crate::endpoint::Endpoint;
    use crate::verdict::Stores;

    /// Returns options with servers that are never reached.
    pub(crate) fn options() -> Options {
        let endpoint = Endpoint::new(&Target::new("https://127.0.0.1:1").unwrap()).unwrap();
        Options {
            servers: [endpoint.clone(), endpoint],
            stores: Stores::Separate,
            rate: None,
            dry_run: false,
            impersonate: false,
            accept: vec!["application/json".to_owned()],
            filter: String::new(),
            variants: None,
        }
    }
}
