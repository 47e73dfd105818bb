//! The API of a server, for commands that are its clients.

use std::path::PathBuf;

use binnacle_comparison::{Endpoint, Outgoing};
use clap::{Arg, ArgMatches, value_parser};
use serde_json::Value;

use crate::Error;

const USER_AGENT: &str = concat!("binnacle/", env!("CARGO_PKG_VERSION"));

/// A server, and the credentials of a kubeconfig.
pub(crate) struct Api {
    endpoint: Endpoint,
    /// The URL of the server, for messages.
    url: String,
}

/// Returns the option that names the kubeconfig of the server `which`.
pub(crate) fn kubeconfig_option(which: &str) -> Arg {
    let option = Arg::new("kubeconfig").long("kubeconfig").value_name("FILE").value_parser(value_parser!(PathBuf));
    option.help(format!("The kubeconfig of the server {which}; if neither this nor KUBECONFIG is set, ~/.kube/config"))
}

pub(crate) fn home() -> Result<PathBuf, Error> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).ok_or_else(|| Error::new("HOME is not set: use --kubeconfig and --output"))
}

impl Api {
    /// Reads the kubeconfig that the option or the environment names.
    pub(crate) fn open(matches: &ArgMatches) -> Result<Self, Error> {
        let named = std::env::var_os("KUBECONFIG").filter(|file| !file.is_empty()).map(PathBuf::from);
        let file = match matches.get_one::<PathBuf>("kubeconfig").cloned().or(named) {
            Some(file) => file,
            None => home()?.join(".kube/config"),
        };
        let target = binnacle_webhook::load(&file).map_err(|error| Error::new(error.to_string()))?;
        let url = target.url.to_string();
        let endpoint = Endpoint::new(&target).map_err(|error| Error::context(&url, error))?;
        Ok(Self { endpoint, url })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request, and returns the status and the object in the response, which is null if it is no JSON.
    pub(crate) async fn request(&self, mut request: Outgoing) -> Result<(u16, Value), Error> {
        request.headers.insert("User-Agent".to_owned(), USER_AGENT.into());
        let answer = self.endpoint.request(&request).await.map_err(|error| Error::context(&self.url, error))?;
        Ok((answer.status, serde_json::from_slice(&answer.data).unwrap_or_default()))
    }

    /// Sends a request, and returns the object in a successful response.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Value, Error> {
        match self.request(request).await? {
            (200..300, value) => Ok(value),
            (status, value) => Err(self.failure(status, &value)),
        }
    }

    /// Returns the error for a response.
    pub(crate) fn failure(&self, status: u16, value: &Value) -> Error {
        Error::new(match value["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("{}: status {status}", self.url),
        })
    }
}
