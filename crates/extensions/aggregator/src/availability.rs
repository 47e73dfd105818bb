//! The availability check of a server, for the condition of its APIService.

use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use futures::stream::{FuturesUnordered, StreamExt};

use crate::aggregator::Aggregator;
use crate::apiservices::{AggregatedServers, DiscoveryError};
use crate::fetch::{FetchError, FetchRequest, aggregator_user, fetch};
use crate::remote::Remote;

/// The timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of attempts before a server counts as unavailable: each may reach another of its endpoints.
const ATTEMPTS: usize = 5;

impl AggregatedServers for Aggregator {
    fn discover<'a>(&'a self, api_service: &'a Value) -> BoxFuture<'a, Result<(), DiscoveryError>> {
        Box::pin(async move {
            let Some(remote) = self.remotes().of(api_service) else { return Ok(()) };
            if let Err(why) = &remote.connections {
                return Err(DiscoveryError::NotSent(why.clone()));
            }
            let Err(first) = check(&remote).await else { return Ok(()) };
            let mut others: FuturesUnordered<_> = (1..ATTEMPTS).map(|_| check(&remote)).collect();
            let mut last = first;
            while let Some(result) = others.next().await {
                match result {
                    Ok(()) => return Ok(()),
                    Err(why) => last = why,
                }
            }
            Err(DiscoveryError::Failed(last))
        })
    }
}

async fn check(remote: &Remote) -> Result<(), String> {
    let (path, user) = (remote.path(), aggregator_user());
    let request = FetchRequest {
        delete_options: None,
        path: &path,
        accept: "",
        if_none_match: "",
        user: &user,
        timeout: TIMEOUT,
        limit: None,
        is_for_peer: false,
    };
    match fetch(remote, &request).await {
        Ok(response) if (200..300).contains(&response.code) => Ok(()),
        Ok(response) => {
            // The address may have changed since; only the message shows it.
            let address = remote.service.address().await?;
            let url = format!("https://{address}{path}");
            Err(format!("failing or missing response from {url}: bad status from {url}: {}", response.code))
        }
        Err(FetchError::Unresolved(why)) => Err(why),
        Err(FetchError::Unreachable { address, why }) => {
            let url = format!("https://{address}{path}");
            Err(format!("failing or missing response from {url}: Get {url:?}: {why}"))
        }
    }
}
