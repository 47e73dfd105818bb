//! The first step of every request: the host, or the logical cluster in its path or in the name of the host.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_endpoints::failure_response;
use binnacle_meta::{Status, StatusDetails};
use binnacle_request::{BasePath, Body, BoxError, ConnectionInfo, Pieces, Preferences, Query};
use binnacle_server::{Chain, TrackedBody};
use binnacle_transport::{ResponseBody, Service};
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::LogicalClusters;
use super::domain::Domain;
use super::slot::{Slot, Unavailable};
use crate::look_back::AT;

/// The prefix of the paths of logical clusters.
const PREFIX: &str = "/clusters/";
/// The prefix of the paths of earlier revisions, in every cluster.
const PAST: &str = "/at/";

/// Passes the requests of connections to the host's chain, or to that of a logical cluster.
pub(crate) struct ClusterRouter {
    pub(crate) host: Arc<Chain>,
    /// `None` if the server hosts none.
    pub(crate) clusters: Option<Arc<LogicalClusters>>,
    /// True if clusters serve their earlier revisions.
    pub(crate) serves_past: bool,
}

/// The destination of a request.
enum Destination {
    Host,
    Cluster(Arc<Slot>),
    /// A refusal of a request for no cluster.
    Refusal(Status),
}

/// The two parts of a path that names a cluster.
struct PathInCluster {
    base: BasePath,
    /// The URI in the cluster.
    uri: Uri,
}

/// The body of a response.
pub(crate) enum RoutedBody {
    OfChain(TrackedBody),
    /// A refusal without a chain.
    Refusal(Body),
}

impl Service for ClusterRouter {
    type Body = RoutedBody;

    async fn serve(&self, mut request: Request<Body>, connection: Arc<ConnectionInfo>) -> Response<RoutedBody> {
        let (destination, rest) = self.route(&request, &connection);
        if let Some(PathInCluster { base, uri }) = rest {
            *request.uri_mut() = uri;
            request.extensions_mut().insert(base);
        }
        if self.serves_past {
            look_back(&mut request);
        }
        match destination {
            Destination::Host => self.host.serve(request, connection).await.map(RoutedBody::OfChain),
            Destination::Cluster(slot) => serve_in(slot, &self.host, request, connection).await,
            Destination::Refusal(status) => refuse(&status, &request).map(RoutedBody::Refusal),
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
    /// Returns the destination of a request, and its path there, if it is another one.
    fn route<T>(&self, request: &Request<T>, connection: &ConnectionInfo) -> (Destination, Option<PathInCluster>) {
        let Some(clusters) = &self.clusters else { return (Destination::Host, None) };
        if let Some(domain) = &clusters.domain {
            match named_cluster(domain, request, connection) {
                Ok(None) => {}
                Ok(Some(name)) => {
                    let missing = || match clusters.are_known() {
                        true => Destination::Refusal(Status::unknown(404, &format!("no logical cluster {name:?}"))),
                        false => not_known_yet(),
                    };
                    return (clusters.find(&name).map_or_else(missing, Destination::Cluster), None);
                }
                Err(status) => return (Destination::Refusal(status), None),
            }
        }
        match self.in_path(clusters, request.uri()) {
            Some((slot, rest)) => (Destination::Cluster(slot), Some(rest)),
            None if split(request.uri()).is_some() && !clusters.are_known() => (not_known_yet(), None),
            // Requests for clusters that do not exist are the host's, which has no such path.
            None => (Destination::Host, None),
        }
    }

    /// Returns the cluster in the path of a request, and the request's path in it. `NAME@REVISION` is the path
    /// `/at/REVISION` of the cluster.
    fn in_path(&self, clusters: &LogicalClusters, uri: &Uri) -> Option<(Arc<Slot>, PathInCluster)> {
        let (name, mut rest) = split(uri)?;
        let base = BasePath(format!("{PREFIX}{name}").into());
        let name = match name.split_once('@').filter(|_| self.serves_past) {
            None => name,
            Some((name, revision)) => {
                rest = PathAndQuery::try_from(format!("{PAST}{revision}{rest}")).ok()?;
                name
            }
        };
        Some((clusters.find(name)?, PathInCluster { base, uri: with_path(uri, rest)? }))
    }
}

/// The destination of a request to a cluster that may exist, soon after the start of the host.
fn not_known_yet() -> Destination {
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    let status = Status::service_unavailable("the logical clusters of this server are not known yet");
    Destination::Refusal(status.with_details(details))
}

fn with_path(uri: &Uri, path: PathAndQuery) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

/// Turns the path of an earlier revision into the path then, with the revision in a header.
pub(super) fn look_back<T>(request: &mut Request<T>) {
    if let Some((revision, uri)) = at_revision(request.uri()) {
        *request.uri_mut() = uri;
        request.headers_mut().insert(&AT, revision);
    }
}

/// Splits the path of an earlier revision into the revision and the URI then.
fn at_revision(uri: &Uri) -> Option<(HeaderValue, Uri)> {
    let (revision, rest) = split_after(PAST, uri)?;
    Some((HeaderValue::from_str(revision).ok()?, with_path(uri, rest)?))
}

/// Returns the name of the cluster in the name by which the client has addressed this server: in the handshake (SNI), or
/// else in the header `Host`.
fn named_cluster<T>(
    domain: &Domain,
    request: &Request<T>,
    connection: &ConnectionInfo,
) -> Result<Option<String>, Status> {
    let in_handshake = connection.server_name.as_deref().and_then(|name| domain.cluster_of(name));
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(http::uri::Authority::as_str).or(header);
    match (in_handshake, host.and_then(|host| domain.cluster_of(host))) {
        // A connection that a client or a proxy uses for several names.
        (Some(a), Some(b)) if a != b => {
            Err(Status::unknown(421, "the host of the request is not the one that the TLS handshake has named"))
        }
        (in_handshake, in_header) => Ok(in_handshake.or(in_header)),
    }
}

/// Serves a request with the URI in the cluster, which is started if it is asleep.
pub(super) async fn serve_in(
    slot: Arc<Slot>,
    host: &Arc<Chain>,
    request: Request<Body>,
    connection: Arc<ConnectionInfo>,
) -> Response<RoutedBody> {
    match slot.begin().await {
        Ok((chain, active)) => {
            chain.count_in(host);
            let response = chain.serve(request, connection).await;
            response.body().hold(active);
            response.map(RoutedBody::OfChain)
        }
        Err(why) => {
            if let Unavailable::Start(error) = &why {
                tracing::error!(
                    error = &**error as &dyn std::error::Error,
                    path = request.uri().path(),
                    "a logical cluster cannot be started"
                );
            }
            refuse(&Status::service_unavailable(why.to_string()), &request).map(RoutedBody::Refusal)
        }
    }
}

/// Splits the path of a logical cluster into the name and the path in the cluster, which keeps the query. The name is
/// not decoded: no name needs it.
fn split(uri: &Uri) -> Option<(&str, PathAndQuery)> {
    split_after(PREFIX, uri)
}

/// Splits the path after a prefix into its next segment and the rest, with the query.
fn split_after<'a>(prefix: &str, uri: &'a Uri) -> Option<(&'a str, PathAndQuery)> {
    let path = uri.path_and_query()?.as_str().strip_prefix(prefix)?;
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let rest = match rest.strip_prefix('/') {
        Some(_) => PathAndQuery::try_from(rest).ok()?,
        None => PathAndQuery::try_from(format!("/{rest}")).ok()?,
    };
    (!name.is_empty()).then_some((name, rest))
}

fn refuse(status: &Status, request: &Request<Body>) -> Response<Body> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    failure_response(status, &Preferences::of(request.headers(), &query))
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

    #[test]
    fn splits_paths_of_revisions() {
        for (uri, want) in [
            ("/at/17/api/v1/pods?limit=1", Some(("17", "/api/v1/pods?limit=1"))),
            ("/at/17", Some(("17", "/"))),
            ("/at/now/api", Some(("now", "/api"))),
            ("/at/", None),
            ("/api/at/17", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let got = at_revision(&uri).map(|(revision, uri)| (revision, uri.to_string()));
            let got = got.as_ref().map(|(revision, uri)| (revision.to_str().unwrap(), uri.as_str()));
            assert_eq!(got, want, "{uri}");
        }
    }

    #[test]
    fn finds_the_cluster_in_the_name_of_the_host() {
        let domain = Domain::new("k8s.example");
        for (in_handshake, uri, host, want) in [
            (None, "/api", Some("a.k8s.example:6443"), Ok(Some("a"))),
            (None, "https://A.k8s.example/api", None, Ok(Some("a"))),
            (Some("a.k8s.example"), "/api", Some("127.0.0.1:6443"), Ok(Some("a"))),
            (Some("a.k8s.example"), "/clusters/b/api", Some("a.k8s.example"), Ok(Some("a"))),
            (Some("a.k8s.example"), "/api", Some("b.k8s.example"), Err(421)),
            (Some("host.example"), "/api", Some("b.k8s.example"), Ok(Some("b"))),
            (Some("k8s.example"), "/api", Some("k8s.example"), Ok(None)),
            (None, "/api", None, Ok(None)),
        ] {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            let request = request.body(()).unwrap();
            let connection = ConnectionInfo::default().with_server_name(in_handshake);
            let got = named_cluster(&domain, &request, &connection).map_err(|status| status.code());
            assert_eq!(
                got.as_ref().map(|name| name.as_deref()),
                want.as_ref().map(|name| *name),
                "{in_handshake:?} {uri} {host:?}"
            );
        }
    }
}
