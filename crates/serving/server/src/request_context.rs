//! The context of a request as it passes the filters; `Chain::run_filters` has their order.

use std::sync::Arc;
use std::time::Instant;

use binnacle_audit::Trail;
use binnacle_meta::Status;
use binnacle_request::{
    Body, ConnectionInfo, Permit, Query, Record, Request, RequestInfo, Response, Upgrade, User, waiting_for_decision,
};
use binnacle_work::{Caller, WorkBudget};
use http::request::Parts;

use crate::chain_config::ChainConfig;
use crate::filters::fairness::FlowClassification;
use crate::impersonation::Impersonation;
use crate::response::Rejection;
use crate::seats::HeldSeat;
use crate::timings::{Filter, FilterTimings};
use crate::{filters, health, traces};

/// A request without its body, and the results of the filters. Each filter that may wait is a method.
pub(crate) struct RequestContext<'a> {
    pub(crate) config: &'a ChainConfig,
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) connection: Arc<ConnectionInfo>,
    pub(crate) record: &'a Arc<Record>,
    pub(crate) trail: Option<&'a Arc<Trail>>,
    pub(crate) budget: &'a WorkBudget,
    pub(crate) deadline: Option<Instant>,
    pub(crate) timings: FilterTimings<'a>,
}

impl RequestContext<'_> {
    /// Returns the caller, and removes the credentials.
    pub(crate) async fn authenticate(&mut self) -> Result<Arc<User>, Rejection> {
        let caller = filters::authenticate::authenticate(
            &self.config.authentication,
            &mut self.parts.headers,
            &self.connection,
            &self.info.path,
            self.record,
            &self.config.metrics,
        );
        let caller = caller.await;
        self.timings.passed(Filter::Authentication);
        let caller = caller?;
        // Turns are shared among authenticated callers, whoever they impersonate.
        self.budget.set_caller(match &self.config.options.charged_to {
            Some(name) => Caller { name: name.clone(), is_system: false },
            None => filters::work::caller(&caller),
        });
        let tracer = self.config.options.tracer.as_deref();
        traces::begin(tracer, self.record, &self.parts, &self.info, &caller, &self.connection);
        Ok(caller)
    }

    /// Records the request as received.
    pub(crate) async fn audit(&mut self, caller: &Arc<User>) -> Result<(), Rejection> {
        filters::audit::record_received(self.trail, &self.info, caller, self.record).await?;
        self.timings.passed(Filter::Audit);
        Ok(())
    }

    /// Returns the impersonated user, or the caller.
    pub(crate) async fn impersonate(
        &mut self,
        impersonation: &Impersonation,
        caller: Arc<User>,
    ) -> Result<Arc<User>, Rejection> {
        let headers = &mut self.parts.headers;
        let user = filters::impersonate::impersonate(impersonation, headers, &self.info, caller, self.record).await?;
        let is_constrained = impersonation.is_constrained();
        self.timings.passed(if is_constrained { Filter::ConstrainedImpersonation } else { Filter::Impersonation });
        Ok(user)
    }

    /// Waits for a seat, if priority and fairness is on and the request needs one.
    pub(crate) async fn take_seat(
        &mut self,
        user: &User,
        classification: &mut FlowClassification,
    ) -> Result<Option<HeldSeat>, Rejection> {
        let (control, request_timeout) = (self.config.options.fairness.as_ref(), self.config.request_timeout);
        let caller = self.budget.caller();
        let seat = filters::fairness::acquire_seat(
            control,
            &self.info,
            &self.query,
            user,
            self.deadline,
            request_timeout,
            caller,
            classification,
        );
        let seat = seat.await;
        classification.record_in(self.record);
        let seat = seat?;
        if let Some(seat) = &seat {
            self.record.seat_with(seat.shared());
        }
        if control.is_some() {
            self.timings.passed(Filter::PriorityAndFairness);
        }
        Ok(seat)
    }

    pub(crate) async fn authorize(&mut self, user: &User) -> Result<Permit, Rejection> {
        let (authorizer, metrics) = (self.config.authorizer.as_ref(), &self.config.metrics);
        let permit = filters::authorize::authorize(authorizer, &self.info, user, &self.parts, self.record, metrics);
        // A webhook may take long to decide, and must not keep the seats of the priority level meanwhile.
        let permit = waiting_for_decision(permit).await.map_err(Status::from)??;
        self.timings.passed(Filter::Authorization);
        Ok(permit)
    }

    /// Passes the request to the first handler that matches.
    pub(crate) async fn handle(
        self,
        user: Arc<User>,
        permit: Permit,
        body: Body,
        upgrade: Option<Upgrade>,
    ) -> Result<Response, Rejection> {
        traces::enter_handler(self.record, &self.info, &self.parts);
        let (config, budget, info) = (self.config, self.budget, self.info.clone());
        let request = Request {
            method: self.parts.method,
            uri: self.parts.uri,
            headers: self.parts.headers,
            body,
            upgrade,
            info: self.info,
            query: self.query,
            user,
            permit,
            connection: self.connection,
            record: self.record.clone(),
            deadline: self.deadline,
            shutdown: config.shutdown.clone(),
        };
        if !health::is_path(&info.path) {
            binnacle_work::wait_behind_own_work().await;
        }
        let response = config.router.dispatch(request, config.failure).await;
        filters::work::check_budget(budget, &info, response)
    }
}
