//! The handler chain: the filters that every request passes, in order. Each filter is a file in `filters/`.

use std::pin::pin;
use std::sync::Arc;

use binnacle_audit::Trail;
use binnacle_request::latency;
use binnacle_request::{Body, ConnectionInfo, Preferences, Query, Record, Response, Shutdown, Upgrade};
use binnacle_transport::{ConnectionMetrics, Service};
use binnacle_work::{WorkBudget, WorkLimits};
use http::StatusCode;

use crate::chain_config::ChainConfig;
use crate::compress;
use crate::filters::fairness::FlowClassification;
use crate::held_resources::HeldResources;
use crate::impersonation::Impersonation;
use crate::inflight::InFlight;
use crate::request_context::RequestContext;
use crate::response::{AuditExempt, Rejection, SendBy};
use crate::seats::HeldSeat;
use crate::timings::FilterTimings;
use crate::tracked_body::{Compressor, TrackedBody};
use crate::{Metrics, filters, health};

/// The handler chain.
pub struct Chain {
    config: ChainConfig,
    impersonation: Impersonation,
    inflight: Arc<InFlight>,
    /// False if large responses are never compressed.
    compression_enabled: bool,
}

impl Service for Chain {
    type Body = TrackedBody;

    fn serve(
        &self,
        request: http::Request<Body>,
        connection: Arc<ConnectionInfo>,
    ) -> impl Future<Output = http::Response<TrackedBody>> + Send {
        Self::serve(self, request, connection)
    }

    fn is_probe(&self, path: &str) -> bool {
        health::is_path(path)
    }

    /// Returns true once the shutdown was initiated.
    fn is_shutting_down(&self) -> bool {
        self.config.options.shutdown_initiated.as_ref().is_some_and(Shutdown::is_fired)
    }
}

impl Chain {
    pub fn new(config: ChainConfig) -> Self {
        let inflight = config.metrics.inflight().clone();
        let constrained = config.features.enabled("ConstrainedImpersonation");
        let metrics = config.metrics.impersonation().clone();
        let impersonation = Impersonation::new(config.authorizer.clone(), constrained, metrics);
        let compression_enabled = config.features.enabled("APIResponseCompression");
        Self { config, impersonation, inflight, compression_enabled }
    }

    pub(crate) fn inflight(&self) -> &Arc<InFlight> {
        &self.inflight
    }

    /// Makes the shutdown of a server with another chain wait for this one's requests.
    pub fn count_in(&self, other: &Self) {
        self.inflight.set_parent(&other.inflight);
    }

    /// Waits until all responses to requests that are not long-running are complete.
    pub async fn short_requests_done(&self) {
        self.inflight.wait_for_short_requests().await;
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.config.metrics
    }

    /// Returns the signal that ends the chain's watches.
    pub fn shutdown(&self) -> &Shutdown {
        &self.config.shutdown
    }

    /// Returns the metrics of the connections of all listeners in front of the chain.
    pub fn connection_metrics(&self) -> &ConnectionMetrics {
        self.config.metrics.connections()
    }

    /// Passes a request to the handlers. It must have passed the filters of another chain of the same cluster.
    pub async fn dispatch(&self, request: binnacle_request::Request) -> Response {
        self.config.router.dispatch(request, self.config.failure).await
    }

    /// Handles one request of a connection.
    pub async fn serve(
        &self,
        mut request: http::Request<Body>,
        connection: Arc<ConnectionInfo>,
    ) -> http::Response<TrackedBody> {
        let is_head = request.method() == http::Method::HEAD;
        let gzip_accepted = self.compression_enabled && compress::accepts_gzip(request.headers());
        let record = filters::record::open(&request, &connection, &self.config.metrics);
        let (upgrade, upgrade_state) = filters::upgrade::take(request.extensions_mut());
        let audited = self.config.options.auditor.is_some();
        let query = request.uri().query().unwrap_or_default();
        let presented =
            audited.then(|| filters::audit::PresentedCredentials::of(request.headers(), query, &connection));
        let trail = filters::audit::open(self.config.options.auditor.as_ref(), &record, request.headers(), &connection);
        let options = &self.config.options;
        options.audit_annotations.iter().for_each(|(key, value)| record.annotate(key, value));
        let origin = options.cors.as_ref().and_then(|cors| cors.origin(request.headers()));
        let preflight = origin.as_ref().and_then(|_| filters::cors::preflight(request.method()));
        let closes_connection = filters::goaway::decide(options.goaway_chance, &connection);
        let mut held = HeldResources::default();
        let budget = WorkBudget::of(WorkLimits::REQUEST, record.clone());
        let response = {
            // Pinned in place, like the futures inside, because futures of this size should not be moved.
            let responding = pin!(self.respond(
                request,
                upgrade,
                connection,
                &record,
                trail.as_ref(),
                preflight,
                &mut held,
                &budget
            ));
            filters::panics::recover(&record, budget.run(responding)).await
        };
        let head_body = if is_head && trail.is_some() { response.body().whole() } else { None };
        let mut response = filters::headers::add_standard(response, &record, is_head);
        filters::headers::add_configured(&mut response, options.hsts.as_ref(), origin);
        let response = filters::authenticate::close_connection_if(closes_connection, response);
        if let Some(long_running) = self.config.metrics.long_running(&record) {
            record.hold(long_running);
        }
        let mut auditor = None;
        if let Some(trail) = trail {
            let mut info = None;
            record.note(|facts| info = facts.info.clone());
            let head = filters::audit::ResponseFacts::of(&response, head_body);
            auditor = filters::audit::record_response(trail, presented.unwrap_or_default(), info, head).await;
        }
        if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            // The response consists of its head only; the upgraded connection continues.
            upgrade_state.set(auditor.take());
        }
        let (mut response, gzip) = match gzip_accepted {
            true => budget.run(pin!(compress::compress_if_large(response))).await,
            false => (response, None),
        };
        if let Some(deadline) = held.send_by(response.status(), &record, self.config.request_timeout) {
            response.extensions_mut().insert(SendBy(deadline));
        }
        if gzip.is_none() && response.body().is_complete() {
            // A client that reads slowly must not keep a seat.
            held = HeldResources::default();
        }
        let is_streamed = gzip.is_some() || !response.body().is_complete();
        held.seat.iter().for_each(HeldSeat::watch_reader);
        let inflight = self.inflight.clone();
        response.map(|body| TrackedBody {
            body,
            record,
            auditor: auditor.map(Box::new),
            compressing: gzip.map(|gzip| Box::new(Compressor::with(gzip))),
            budget: is_streamed.then(|| budget.streaming()),
            handed_over_at: None,
            held,
            inflight,
        })
    }

    /// Runs a request through the filters, from parsing its path to the handler or to the first filter that rejects it.
    #[expect(clippy::too_many_arguments, reason = "all that `serve` has found out, in one place")]
    async fn respond(
        &self,
        request: http::Request<Body>,
        upgrade: Option<Upgrade>,
        connection: Arc<ConnectionInfo>,
        record: &Arc<Record>,
        trail: Option<&Arc<Trail>>,
        preflight: Option<Response>,
        held: &mut HeldResources,
        budget: &WorkBudget,
    ) -> Response {
        let config = &self.config;
        let (parts, body) = request.into_parts();
        // Rejections depend on the Accept headers; handlers receive the headers without credentials.
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let preferences = Preferences::of(&parts.headers, &query);
        let reject = |rejection: Rejection| rejection.into_response(config.failure, &preferences);

        let info = match filters::info::parse(&parts, &query, record) {
            Ok(info) => info,
            Err(rejection) => return reject(rejection),
        };
        if let Err(rejection) = filters::draining::check(config.options.draining.as_ref(), &info, &parts) {
            return unaudited(reject(rejection));
        }
        // Held by the record, which outlives the response if the connection is upgraded.
        record.hold(filters::inflight::count(&self.inflight, &info));
        if info.is_long_running() {
            held.is_long_running = true;
        } else {
            held.short_request = Some(self.inflight.begin_short());
        }
        let deadline = match filters::deadline::compute(&info, &query, record, config.request_timeout) {
            Ok(deadline) => deadline,
            Err(rejection) => return reject(rejection),
        };
        held.deadline = deadline;
        deadline.into_iter().for_each(|deadline| budget.set_deadline(deadline));
        if let Some(preflight) = preflight {
            return unaudited(preflight);
        }
        let timings = FilterTimings::begin(config.metrics.filters(), record);
        let ctx = RequestContext {
            config,
            parts,
            query,
            info: info.clone(),
            connection,
            record,
            trail,
            budget,
            deadline,
            timings,
        };
        let mut classification = FlowClassification::default();
        let outcome = {
            let outcome = pin!(self.run_filters(ctx, body, upgrade, held, &mut classification));
            filters::deadline::within(deadline, latency::working_for(record, outcome)).await
        };
        config.metrics.work().record(budget);
        let mut response = match outcome {
            Some(Ok(response)) => response,
            Some(Err(rejection)) => {
                if matches!(rejection, Rejection::RetryAfter { code: StatusCode::TOO_MANY_REQUESTS, .. }) {
                    config.metrics.count_termination(&info, record, "429");
                }
                reject(rejection)
            }
            None => {
                config.metrics.count_termination(&info, record, "504");
                reject(filters::deadline::timeout_rejection())
            }
        };
        filters::fairness::add_headers(&classification, &mut response);
        response
    }

    /// Runs the filters that need the caller, in order, and then the handler.
    async fn run_filters(
        &self,
        mut ctx: RequestContext<'_>,
        body: Body,
        upgrade: Option<Upgrade>,
        held: &mut HeldResources,
        classification: &mut FlowClassification,
    ) -> Result<Response, Rejection> {
        let options = &self.config.options;
        let info = ctx.info.clone();
        let caller = ctx.authenticate().await?;
        let closes_connection = filters::authenticate::must_close(&caller, &ctx.connection);
        ctx.audit(&caller).await?;
        // From here on, the user is the impersonated one.
        let user = ctx.impersonate(&self.impersonation, caller).await?;
        filters::not_ready::check(options.has_been_ready.as_ref(), &info, &user, ctx.record)?;
        filters::inflight::check(options.limits, &self.inflight, &info, &user)?;
        options.quota.as_ref().map_or(Ok(()), |quota| quota.check(&self.inflight, &info))?;
        let seat = ctx.take_seat(&user, classification).await?;
        // A watch holds the seat until it has started, other requests until the response is complete.
        let start_seat = match seat {
            Some(seat) if info.is_long_running() => Some(seat),
            seat => {
                held.seat = seat;
                None
            }
        };
        let permit = ctx.authorize(&user).await?;
        let record = ctx.record;
        let response = ctx.handle(user, permit, body, upgrade).await?;
        if start_seat.is_some() {
            record.forget_seat();
        }
        Ok(filters::authenticate::close_connection_if(closes_connection, response))
    }
}

fn unaudited(mut response: Response) -> Response {
    response.extensions_mut().insert(AuditExempt);
    response
}

#[cfg(test)]
mod tests {
    use std::task::Poll;
    use std::time::Duration;

    use binnacle_authn::{Anonymous, Bearer, FailFast, TokenFile, Union as Authenticators};
    use binnacle_authz::{PrivilegedGroups, Union as Authorizers};
    use binnacle_flowcontrol::{FlowControl, RequestLimits};
    use binnacle_metrics::Registry;
    use binnacle_request::{BoxError, BoxFuture, Handler, Pieces, Request, RequestInfo, ShutdownTrigger};
    use http::Request as HttpRequest;

    use super::*;
    use crate::chain_config::ChainOptions;
    use crate::filters::authenticate::Authentication;
    use crate::{Router, json_failure};

    /// A handler whose paths show the different behaviors of handlers.
    struct BehaviorHandler;

    impl Handler for BehaviorHandler {
        fn matches(&self, info: &RequestInfo) -> bool {
            info.path.starts_with("/do/") || info.is_resource_request
        }

        fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
            Box::pin(async move {
                match request.info.path.as_str() {
                    "/do/panic" => panic!("on purpose"),
                    "/do/panic-later" => Response::new(Body::stream(futures::stream::poll_fn(
                        |_| -> Poll<Option<Result<Pieces, BoxError>>> { panic!("later") },
                    ))),
                    "/do/hang" => std::future::pending().await,
                    "/do/body" => {
                        let size = request.header("x-remote-user").map_or(0, str::len);
                        Response::new(Body::from(format!("{} {size}", request.user.name)))
                    }
                    _ => Response::new(Body::empty()),
                }
            })
        }

        fn paths(&self) -> Vec<String> {
            vec!["/do/body".into()]
        }
    }

    fn chain() -> Chain {
        let tokens = TokenFile::parse("t", b"root,root,1,system:masters\nuser,user,2\n").unwrap();
        let known = Authenticators::new(vec![Box::new(Bearer::new(tokens))]);
        let limits = RequestLimits { read_only: 100, mutating: 100 };
        let fairness = FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).unwrap();
        Chain::new(ChainConfig {
            authentication: Authentication::by(Arc::new(FailFast(known, Anonymous::new()))),
            authorizer: Arc::new(Authorizers::new(vec![Box::new(PrivilegedGroups::masters())])),
            router: Router::new(vec![Arc::new(BehaviorHandler)]),
            failure: json_failure,
            metrics: Metrics::new().unwrap(),
            features: Arc::default(),
            shutdown: ShutdownTrigger::new().1,
            request_timeout: Duration::from_secs(60),
            options: ChainOptions { fairness: Some(fairness), ..ChainOptions::default() },
        })
    }

    async fn send(chain: &Chain, method: &str, uri: &str, token: &str) -> (u16, http::HeaderMap, String) {
        let mut request = HttpRequest::builder().method(method).uri(uri).header("x-remote-user", "spoof");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = chain.serve(request.body(Body::empty()).unwrap(), Arc::default()).await;
        let (parts, body) = response.into_parts();
        let text = Body::new(body).read(100_000).await;
        let text = text.map_or_else(|error| error.to_string(), |bytes| String::from_utf8(bytes.to_vec()).unwrap());
        (parts.status.as_u16(), parts.headers, text)
    }

    #[tokio::test]
    async fn responds_with_status_headers_and_body() {
        let chain = chain();
        let status = |reason: &str, code: u16, message: &str, details: &str| {
            let message = serde_json::Value::from(message);
            format!(
                "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":{message},\
                 \"reason\":\"{reason}\"{details},\"code\":{code}}}\n"
            )
        };
        let unauthorized = status("Unauthorized", 401, "Unauthorized", "");
        let forbidden =
            status("Forbidden", 403, "forbidden: User \"user\" cannot get path \"/do/body\"", ",\"details\":{}");
        let pods = status(
            "Forbidden",
            403,
            "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"n\"",
            ",\"details\":{\"kind\":\"pods\"}",
        );
        let timeout =
            status("Timeout", 504, "Timeout: request did not complete within the allotted timeout", ",\"details\":{}");
        let invalid = status(
            "BadRequest",
            400,
            "invalid timeout specified in the request URL - time: invalid duration \"x\"",
            "",
        );
        let panicked = "This request caused apiserver to panic. Look in the logs for details.\n";
        for (method, uri, token, code, body) in [
            ("GET", "/do/body", "root", 200, "root 0"),
            ("HEAD", "/do/body", "root", 200, ""),
            ("GET", "/do/body", "wrong", 401, &unauthorized),
            ("GET", "/do/body", "user", 403, &forbidden),
            ("GET", "/api/v1/namespaces/n/pods", "", 403, &pods),
            ("GET", "/nothing", "root", 404, "404 page not found\n"),
            ("GET", "/do/hang?timeout=1ms", "root", 504, &timeout),
            ("GET", "/do/hang?timeout=x", "root", 400, &invalid),
            ("GET", "/do/panic", "root", 500, panicked),
            ("GET", "/do/panic-later", "root", 200, "the stream ended in a panic"),
            ("GET", "/", "root", 200, "{\n  \"paths\": [\n    \"/do/body\"\n  ]\n}"),
        ] {
            let (got, headers, text) = send(&chain, method, uri, token).await;
            assert_eq!((got, text.as_str()), (code, body), "{method} {uri} {token}");
            assert_eq!(headers["cache-control"], "no-cache, private");
            assert_eq!(headers["audit-id"].len(), 36);
        }
        // The records of all requests have been dropped.
        assert_eq!(chain.inflight.now(crate::inflight::RequestKind::ReadOnly), 0);
        let (_, headers, _) = send(&chain, "HEAD", "/do/body", "root").await;
        assert_eq!(headers["content-length"], "6");
    }
}
