//! The authorization checks of each mode of impersonation.

use std::sync::Arc;
use std::time::Instant;

use binnacle_authn::service_account::{groups as account_groups, split_username};
use binnacle_authz::{Attributes, forbidden};
use binnacle_meta::{FieldErrors, FieldPath, Status, Text, go_quote};
use binnacle_request::{Decision, User};
use binnacle_validation::domains::domain_prefixed_path;
use binnacle_validation::names::dns1123_subdomain;
use binnacle_work::charge;

use super::Impersonation;
use super::cache::Key;
use super::mode::Mode;

pub(super) const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const ASSOCIATED_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// The number of groups or extras from which permission for all of them is checked first.
const MANY: usize = 4;

/// The cost of one authorization check. Headers can name twenty thousand groups, with one check per group.
pub(super) const STEPS_PER_CHECK: u64 = 1000;

/// The modes in the order of the attempts.
pub(super) const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

impl Mode {
    /// Returns true if the mode applies to these two users.
    fn applies_to(self, target: &User, requestor: &User) -> bool {
        let only_name = target.uid.is_empty() && target.groups.is_empty() && target.extra.is_empty();
        let node = node_name(&target.name);
        match self {
            Self::AssociatedNode => {
                let own_node = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
                let own_node = if let Some([own_node]) = own_node { Some(own_node.as_str()) } else { None };
                only_name && node.is_some() && node == own_node && split_username(&requestor.name).is_some()
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && split_username(&target.name).is_some(),
            Self::UserInfo => node.is_none() && split_username(&target.name).is_none(),
            Self::Legacy => true,
        }
    }

    /// Returns the user that the caller of `request` becomes; `None` if the mode does not apply to these users.
    pub(super) async fn check(
        self,
        impersonation: &Impersonation,
        target: &User,
        request: &Attributes<'_>,
    ) -> Result<Option<Arc<User>>, Status> {
        if !self.applies_to(target, request.user) {
            return Ok(None);
        }
        if self == Self::Legacy {
            let check = Check { mode: self, impersonation, requestor: request.user };
            return check.authorize_user(target).await.map(|user| Some(Arc::new(user)));
        }
        if self != Self::AssociatedNode {
            return self.check_constrained(impersonation, target, target, request).await.map(Some);
        }
        // The node is resolved above. Permission is checked for all nodes at once and for the account regardless of its
        // node, so that the pods of a daemon set share cached decisions.
        let keys = request.user.extra.keys().cloned().collect();
        let on_any_node = User { extra: [(Text::new_static(ASSOCIATED_KEYS), keys)].into(), ..request.user.clone() };
        let request = Attributes { user: &on_any_node, ..*request };
        let user = self.check_constrained(impersonation, target, &User::new("system:node:*", &[]), &request).await?;
        Ok(Some(Arc::new(User { name: target.name.clone(), ..(*user).clone() })))
    }

    /// `cached_as` replaces the target user in the keys of cached decisions.
    async fn check_constrained(
        self,
        impersonation: &Impersonation,
        target: &User,
        cached_as: &User,
        request: &Attributes<'_>,
    ) -> Result<Arc<User>, Status> {
        let for_request = Key::of_request(self, cached_as, request);
        if let Some(user) = impersonation.cache.get(&for_request) {
            return Ok(user);
        }
        let check = Check { mode: self, impersonation, requestor: request.user };
        let verb = self.verb_on(request.verb);
        check.authorize(&Attributes { verb: &verb, ..*request }).await?;
        let for_user = Key::of_user(self, cached_as, request.user);
        let user = match impersonation.cache.get(&for_user) {
            Some(user) => user,
            None => {
                let user = Arc::new(check.authorize_user(target).await?);
                impersonation.cache.insert(for_user, user.clone());
                user
            }
        };
        impersonation.cache.insert(for_request, user.clone());
        Ok(user)
    }
}

/// Authorization checks in one mode.
struct Check<'a> {
    mode: Mode,
    impersonation: &'a Impersonation,
    requestor: &'a User,
}

impl<'a> Check<'a> {
    /// Authorizes each part of the target user. Returns the user that the caller becomes.
    async fn authorize_user(&self, target: &User) -> Result<User, Status> {
        let mut user = target.clone();
        self.name(target, &mut user).await?;
        if !target.uid.is_empty() {
            self.part("uids", "", &target.uid).await?;
        }
        self.groups(&target.groups).await?;
        self.extra(target).await?;
        complete_groups(&mut user);
        Ok(user)
    }

    fn attributes(&self, api_group: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            verb: self.mode.verb(),
            is_resource_request: true,
            api_group,
            api_version: "v1",
            resource,
            name,
            ..Attributes::nothing(self.requestor)
        }
    }

    /// Returns the API group of users and groups, which is the core group in the legacy mode.
    fn subject_group(&self) -> &'static str {
        if self.mode == Mode::Legacy { "" } else { AUTHENTICATION }
    }

    async fn name(&self, target: &User, user: &mut User) -> Result<(), Status> {
        let mut attributes = self.attributes(self.subject_group(), "users", &target.name);
        if let Some(node) = node_name(&target.name)
            && self.mode != Mode::Legacy
        {
            attributes.resource = "nodes";
            attributes.name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            user.groups = vec![Text::new_static("system:nodes")];
        }
        if let Some((namespace, name)) = split_username(&target.name) {
            attributes.resource = "serviceaccounts";
            attributes.namespace = namespace;
            attributes.name = name;
            // The groups of a service account follow from its name.
            if target.groups.is_empty() {
                user.groups = account_groups(namespace);
            }
        }
        self.authorize(&attributes).await
    }

    async fn part(&self, resource: &str, subresource: &str, name: &str) -> Result<(), Status> {
        let attributes = self.attributes(AUTHENTICATION, "", "");
        self.authorize(&Attributes { resource, subresource, name, ..attributes }).await
    }

    async fn groups(&self, groups: &[Text]) -> Result<(), Status> {
        if groups.is_empty() {
            return Ok(());
        }
        let attributes = self.attributes(self.subject_group(), "groups", "");
        if self.mode != Mode::Legacy {
            if groups.iter().any(|group| group.is_empty()) {
                return Err(forbidden(&attributes, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == User::MASTERS) {
                let attributes = Attributes { name: User::MASTERS, ..attributes };
                return Err(forbidden(&attributes, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.authorize(&Attributes { name: "*", ..attributes }).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.authorize(&Attributes { name: group, ..attributes }).await?;
        }
        Ok(())
    }

    async fn extra(&self, target: &User) -> Result<(), Status> {
        if target.extra.is_empty() {
            return Ok(());
        }
        if self.mode != Mode::Legacy {
            if let Err(why) = check_extra(target) {
                return Err(forbidden(&self.attributes(AUTHENTICATION, "userextras", ""), &why));
            }
            let many = target.extra.len() >= MANY || target.extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.part("userextras", "*", "*").await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &target.extra {
            for value in values {
                self.part("userextras", key, value).await?;
            }
        }
        Ok(())
    }

    async fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        charge(STEPS_PER_CHECK)?;
        let began = Instant::now();
        let decision = self.impersonation.authorizer.authorize(attributes).await;
        let allowed = matches!(decision, Ok(Decision::Allow(_)));
        self.impersonation.metrics.observe_check(self.mode.label(), allowed, began.elapsed());
        let why = match decision {
            Ok(Decision::Allow(_)) => return Ok(()),
            Ok(decision) => decision.reason().to_owned(),
            Err(error) if error.reason.is_empty() => error.message,
            Err(error) => format!("{}: {}", error.message, error.reason),
        };
        Err(forbidden(attributes, &why))
    }
}

/// Returns the node of a user name, if it belongs to a node.
fn node_name(username: &str) -> Option<&str> {
    username.strip_prefix(NODE_PREFIX).filter(|name| dns1123_subdomain(name).is_empty())
}

fn check_extra(target: &User) -> Result<(), String> {
    for (key, values) in &target.extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let mut errors = FieldErrors::new();
        domain_prefixed_path(&FieldPath::new("extra").child("key"), key, &mut errors);
        if !errors.is_empty() {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let why = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
            return Err(format!("impersonating an invalid key in extra is not allowed: {why}"));
        }
        if key.to_lowercase() != key.as_str() {
            return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", go_quote(key)));
        }
        if values.iter().any(|value| value.is_empty()) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

/// Adds the group of all authenticated or all unauthenticated users.
pub(super) fn complete_groups(user: &mut User) {
    let group = if user.name == User::ANONYMOUS {
        User::UNAUTHENTICATED
    } else if user.is_in(User::UNAUTHENTICATED) {
        return;
    } else {
        User::AUTHENTICATED
    };
    if !user.is_in(group) {
        user.groups.push(Text::new_static(group));
    }
}
