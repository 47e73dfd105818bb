//! What has a path but no place in the store: reviews of who somebody is and what they may do, the statuses of
//! components, and orders about pods (bindings, evictions). Each is a [`Special`] of the API link.
//!
//! A body is read, judged and admitted here as it is for stored objects; what then happens is each special's own.

mod component_statuses;
mod https;
mod pods;
mod posted;
mod reviews;
mod token_request;

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_authn::Authenticator;
use binnacle_authz::Authorizer;
use binnacle_endpoints::{Special, SpecialKey};
use binnacle_meta::Text;
use binnacle_registry::ResourceSet;
use binnacle_registry::admission::Admission;
use binnacle_store::Store;

use crate::component_statuses::ComponentStatuses;
use crate::pods::{Binding, Eviction};
use crate::reviews::{AccessReview, RulesReview, SelfReview, Subject, TokenReview};
pub use crate::token_request::TokenIssuer;
use crate::token_request::TokenRequest;

/// What the specials need of the server that they are part of.
#[derive(Clone)]
pub struct Server {
    pub store: Arc<dyn Store>,
    pub resources: ResourceSet,
    pub admission: Arc<dyn Admission>,
    pub authenticator: Arc<dyn Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    /// `--api-audiences`: whom tokens for this server are made for.
    pub api_audiences: Vec<Text>,
    pub token_issuer: TokenIssuer,
}

/// All specials of built-in groups.
pub fn all(server: &Server) -> HashMap<SpecialKey, Arc<dyn Special>> {
    let mut specials: HashMap<SpecialKey, Arc<dyn Special>> = HashMap::new();
    let mut add = |group, version, plural, subresource, special: Arc<dyn Special>| {
        let text = Text::new_static;
        specials.insert((text(group), text(version), text(plural), text(subresource)), special);
    };
    let admission = || server.admission.clone();
    add("", "v1", "componentstatuses", "", Arc::new(ComponentStatuses::new(server.store.clone())));
    add("", "v1", "bindings", "", Arc::new(Binding::collection(server.resources.clone(), admission())));
    add("", "v1", "pods", "binding", Arc::new(Binding::subresource(server.resources.clone(), admission())));
    add("", "v1", "pods", "eviction", Arc::new(Eviction::new(server.resources.clone(), admission())));
    let requests = TokenRequest::new(server.resources.clone(), admission(), server.token_issuer.clone());
    add("", "v1", "serviceaccounts", "token", Arc::new(requests));
    let authentication = "authentication.k8s.io";
    add(authentication, "v1", "selfsubjectreviews", "", Arc::new(SelfReview::new(admission())));
    let tokens = TokenReview::new(admission(), server.authenticator.clone(), server.api_audiences.clone());
    add(authentication, "v1", "tokenreviews", "", Arc::new(tokens));
    let authorization = "authorization.k8s.io";
    for (plural, subject) in [
        ("subjectaccessreviews", Subject::Named),
        ("localsubjectaccessreviews", Subject::NamedIn),
        ("selfsubjectaccessreviews", Subject::Caller),
    ] {
        let review = AccessReview::new(subject, admission(), server.authorizer.clone());
        add(authorization, "v1", plural, "", Arc::new(review));
    }
    let rules = RulesReview::new(admission(), server.authorizer.clone());
    add(authorization, "v1", "selfsubjectrulesreviews", "", Arc::new(rules));
    specials
}
