//! The first step of every request: the host, or the logical cluster in its path.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces, Preferences, Query};
use binnacle_server::{Chain, TrackedBody};
use binnacle_transport::{ResponseBody, Service};
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::LogicalClusters;
use super::slot::{Slot, Unavailable};

/// The prefix of the paths of logical clusters.
const PREFIX: &str = "/clusters/";

/// Passes the requests of connections to the host's chain, or to that of a logical cluster.
pub(crate) struct ClusterRouter {
    pub(crate) host: Arc<Chain>,
    /// `None` if the server hosts none.
    pub(crate) clusters: Option<Arc<LogicalClusters>>,
}

/// The body of a response.
#[expect(clippy::large_enum_variant, reason = "almost all bodies are of a chain, and need no allocation")]
pub(crate) enum RoutedBody {
    OfChain(TrackedBody),
    /// A refusal without a chain.
    Refusal(Body),
}

impl Service for ClusterRouter {
    type Body = RoutedBody;

    async fn serve(&self, request: Request<Body>, connection: Arc<ConnectionInfo>) -> Response<RoutedBody> {
        let Some((slot, uri)) = self.route(request.uri()) else {
            return self.host.serve(request, connection).await.map(RoutedBody::OfChain);
        };
        match slot.begin().await {
            Ok((chain, active)) => {
                chain.count_in(&self.host);
                let (mut parts, body) = request.into_parts();
                parts.uri = uri;
                let response = chain.serve(Request::from_parts(parts, body), connection).await;
                response.body().hold(active);
                response.map(RoutedBody::OfChain)
            }
            Err(why) => refuse(&why, &request).map(RoutedBody::Refusal),
        }
    }

    fn is_probe(&self, path: &str) -> bool {
        self.host.is_probe(path)
    }

    fn is_shutting_down(&self) -> bool {
        self.host.is_shutting_down()
    }
}

impl ClusterRouter {
    /// Returns the cluster of a request, and the request's URI in it. Requests for clusters that do not exist are the
    /// host's, which has no such path.
    fn route(&self, uri: &Uri) -> Option<(Arc<Slot>, Uri)> {
        let (name, rest) = split(uri)?;
        let slot = self.clusters.as_ref()?.find(name)?;
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(rest);
        Some((slot, Uri::from_parts(parts).ok()?))
    }
}

/// Splits the path of a logical cluster into the name and the path in the cluster, which keeps the query. The name is
/// not decoded: no name needs it.
fn split(uri: &Uri) -> Option<(&str, PathAndQuery)> {
    let path = uri.path_and_query()?.as_str().strip_prefix(PREFIX)?;
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let rest = match rest.strip_prefix('/') {
        Some(_) => PathAndQuery::try_from(rest).ok()?,
        None => PathAndQuery::try_from(format!("/{rest}")).ok()?,
    };
    (!name.is_empty()).then_some((name, rest))
}

fn refuse(why: &Unavailable, request: &Request<Body>) -> Response<Body> {
    if let Unavailable::Start(error) = why {
        tracing::error!(
            error = &**error as &dyn std::error::Error,
            path = request.uri().path(),
            "a logical cluster cannot be started"
        );
    }
    let status = Status::service_unavailable(why.to_string());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    failure_response(&status, &Preferences::of(request.headers(), &query))
}

impl HttpBody for RoutedBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::OfChain(body) => Pin::new(body).poll_frame(cx),
            Self::Refusal(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::OfChain(body) => body.is_end_stream(),
            Self::Refusal(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::OfChain(body) => body.size_hint(),
            Self::Refusal(body) => body.size_hint(),
        }
    }
}

impl ResponseBody for RoutedBody {
    fn hold(&self, guard: impl Any + Send) {
        match self {
            Self::OfChain(body) => body.hold(guard),
            // A refusal needs nothing.
            Self::Refusal(_) => drop(guard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths_of_clusters() {
        for (uri, want) in [
            ("/clusters/a/api/v1/pods?watch=1", Some(("a", "/api/v1/pods?watch=1"))),
            ("https://host/clusters/a/api", Some(("a", "/api"))),
            ("/clusters/a", Some(("a", "/"))),
            ("/clusters/a?x=1", Some(("a", "/?x=1"))),
            ("/clusters/a/", Some(("a", "/"))),
            ("/clusters/a/../b/api", Some(("a", "/../b/api"))),
            ("/clusters/a//api", Some(("a", "//api"))),
            ("/clusters/a%2Fb/api", Some(("a%2Fb", "/api"))),
            ("/clusters/", None),
            ("/clusters//api", None),
            ("/clusters", None),
            ("/cluster/a", None),
            ("/api/clusters/a", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let got = split(&uri);
            assert_eq!(got.as_ref().map(|(name, rest)| (*name, rest.as_str())), want, "{uri}");
        }
    }
}
