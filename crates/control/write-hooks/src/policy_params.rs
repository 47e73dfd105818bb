//! Authors of admission policies and bindings must be able to read the parameters, as expressions could reveal them.

use std::sync::Arc;

use binnacle_admission_policies::PolicyResource;
use binnacle_authz::{Attributes, Authorizer};
use binnacle_meta::{FieldError, FieldErrors, FieldPath, GroupVersion};
use binnacle_registry::hooks::{Hooks, Review};
use binnacle_registry::{Catalog, Context, Match};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::Value;

const GROUP: &str = "admissionregistration.k8s.io";

/// Group and kind.
type GroupKindName = (&'static str, &'static str);

/// The check for objects of one of the four resources.
struct PolicyParams {
    resources: Catalog,
    authorizer: Arc<dyn Authorizer>,
    resource: PolicyResource,
}

/// The resource that the author must be able to read; `*` for unknown parts.
struct Read {
    group: String,
    version: String,
    resource: String,
    /// The reason why it is not known, for bindings.
    unknown: Option<String>,
}

/// Returns the checks by group and kind.
pub fn policy_hooks(resources: &Catalog, authorizer: &Arc<dyn Authorizer>) -> [(GroupKindName, Arc<dyn Hooks>); 4] {
    PolicyResource::ALL.map(|resource| {
        let hooks = PolicyParams { resources: resources.clone(), authorizer: authorizer.clone(), resource };
        let hooks: Arc<dyn Hooks> = Arc::new(hooks);
        ((GROUP, resource.kind()), hooks)
    })
}

impl Hooks for PolicyParams {
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        Box::pin(async move {
            let user = &review.context.user;
            if !found.is_empty() || !review.subresource.is_empty() || user.is_in(User::MASTERS) {
                return found;
            }
            let judged = match self.resource {
                PolicyResource::ValidatingPolicies | PolicyResource::MutatingPolicies => {
                    self.policy(&review).await.map_err(|why| ("paramKind", why))
                }
                PolicyResource::ValidatingBindings | PolicyResource::MutatingBindings => {
                    self.binding(&review).await.map_err(|why| ("paramRef", why))
                }
            };
            match judged {
                Ok(()) => found,
                Err((member, why)) => FieldError::forbidden(&FieldPath::new("spec").child(member), why).into(),
            }
        })
    }
}

impl PolicyParams {
    async fn policy(&self, review: &Review<'_>) -> Result<(), String> {
        let kind = |object: &Value| object.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null()).cloned();
        let Some(wanted) = kind(review.object) else { return Ok(()) };
        if review.old.and_then(kind).as_ref() == Some(&wanted) {
            return Ok(());
        }
        let read = self.of_kind(&wanted);
        let user = &review.context.user;
        if self.allows(user, "get", &read, "*", "*").await? {
            return Ok(());
        }
        Err(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(user),
            wanted.str_at(&["kind"]),
            wanted.str_at(&["apiVersion"])
        ))
    }

    async fn binding(&self, review: &Review<'_>) -> Result<(), String> {
        let Some(reference) = review.object.at(&["spec", "paramRef"]).filter(|reference| !reference.is_null()) else {
            return Ok(());
        };
        let read = self.of_policy(review.object.str_at(&["spec", "policyName"])).await;
        let (name, namespace) = (reference.str_at(&["name"]), reference.str_at(&["namespace"]));
        let verb = if name.is_empty() { "list" } else { "get" };
        let user = &review.context.user;
        let asked = self.allows(user, verb, &read, namespace, name).await;
        let asked = asked.map_err(|error| match self.resource {
            PolicyResource::ValidatingBindings => format!("failed to authorize request: {error}"),
            _ => error,
        });
        if asked? {
            return Ok(());
        }
        let user = shown(user);
        Err(match (&read.unknown, self.resource) {
            (Some(unknown), _) => format!(
                "{unknown} to determine minimum required permissions and user {user} does not have \"{verb}\" permission \
                 for all groups, versions and resources"
            ),
            // kube-apiserver swaps the user and the verb here.
            (None, PolicyResource::MutatingBindings) => {
                format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
            }
            (None, _) => {
                format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
            }
        })
    }

    /// Returns the resource of a policy's parameters.
    async fn of_policy(&self, name: &str) -> Read {
        let plural = match self.resource {
            PolicyResource::MutatingBindings => PolicyResource::MutatingPolicies.plural(),
            _ => PolicyResource::ValidatingPolicies.plural(),
        };
        let policy = match self.resources.find(GROUP, "v1", plural) {
            Some(policies) => policies.get_object(&Context::internal(""), name, Match::Consistent).await.ok(),
            None => None,
        };
        let Some(policy) = policy else { return Read::anything(format!("unable to get policy {name}")) };
        match policy.object.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null()) {
            Some(kind) => self.of_kind(kind),
            None => Read { unknown: None, ..Read::anything(String::new()) },
        }
    }

    fn of_kind(&self, kind: &Value) -> Read {
        let (api_version, kind) = (kind.str_at(&["apiVersion"]), kind.str_at(&["kind"]));
        let told = || format!("paramKind &ParamKind{{APIVersion:{api_version},Kind:{kind},}}");
        let Some(version) = GroupVersion::parse(api_version) else {
            return Read::anything(format!("unable to parse {}", told()));
        };
        let snapshot = self.resources.snapshot();
        let found = snapshot.served().find_kind(&version.group, &version.version, kind);
        let resource = found.map_or("*".to_owned(), |found| found.plural.to_string());
        let unknown = found.is_none().then(|| format!("unable to resolve {}", told()));
        Read { group: version.group.to_string(), version: version.version.to_string(), resource, unknown }
    }

    async fn allows(&self, user: &User, verb: &str, read: &Read, namespace: &str, name: &str) -> Result<bool, String> {
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: &read.group,
            api_version: &read.version,
            resource: &read.resource,
            namespace,
            name,
            ..Attributes::nothing(user)
        };
        let decision = self.authorizer.authorize(&attributes).await;
        decision.map(|decision| decision.is_allow()).map_err(|error| error.message)
    }
}

impl Read {
    fn anything(why: String) -> Self {
        let any = || "*".to_owned();
        Self { group: any(), version: any(), resource: any(), unknown: Some(why) }
    }
}

/// Formats a user as Go does.
fn shown(user: &User) -> String {
    let extra =
        |(name, values): (&binnacle_meta::Text, &Vec<binnacle_meta::Text>)| format!("{name}:[{}]", values.join(" "));
    let extra: Vec<String> = user.extra.iter().map(extra).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
