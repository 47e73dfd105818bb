//! Authors of admission policies and bindings must be able to read the parameters, as expressions could reveal them.

use std::sync::Arc;

use binnacle_admission_policies::PolicyResource;
use binnacle_authz::{Attributes, Authorizer};
use binnacle_fields::admissionregistration::v1::{
    ParamKind, ParamRef, ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as Binding,
    ValidatingAdmissionPolicyBindingSpec as BindingSpec, ValidatingAdmissionPolicySpec as PolicySpec,
};
use binnacle_fields::{FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors, GroupVersion};
use binnacle_registry::hooks::{Hooks, Review};
use binnacle_registry::{Catalog, Context, Match};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::Value;

const GROUP: &str = "admissionregistration.k8s.io";

/// Group and kind.
type GroupKindName = (&'static str, &'static str);

/// The hooks of one of the four resources.
struct PolicyParams {
    resources: Catalog,
    authorizer: Arc<dyn Authorizer>,
    resource: PolicyResource,
}

/// The resource that the author must be able to read; `*` for unknown parts.
struct ParamResource {
    group: String,
    version: String,
    resource: String,
    /// The reason why the resource is unknown, for bindings.
    unknown: Option<String>,
}

/// Returns the hooks by group and kind.
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
            let outcome = match self.resource {
                PolicyResource::ValidatingPolicies | PolicyResource::MutatingPolicies => {
                    self.policy(&review).await.map_err(|why| (route![Policy::SPEC, PolicySpec::PARAM_KIND].path(), why))
                }
                PolicyResource::ValidatingBindings | PolicyResource::MutatingBindings => self
                    .binding(&review)
                    .await
                    .map_err(|why| (route![Binding::SPEC, BindingSpec::PARAM_REF].path(), why)),
            };
            match outcome {
                Ok(()) => found,
                Err((path, why)) => FieldError::forbidden(&path, why).into(),
            }
        })
    }
}

impl PolicyParams {
    async fn policy(&self, review: &Review<'_>) -> Result<(), String> {
        let Some(kind) = param_kind(review.object) else { return Ok(()) };
        if review.old.and_then(param_kind).is_some_and(|old| old.value() == kind.value()) {
            return Ok(());
        }
        let resource = self.resource_of_kind(kind);
        let user = &review.context.user;
        if self.allows(user, "get", &resource, "*", "*").await? {
            return Ok(());
        }
        Err(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            go_string(user),
            kind.at(ParamKind::KIND).str(),
            kind.at(ParamKind::API_VERSION).str()
        ))
    }

    async fn binding(&self, review: &Review<'_>) -> Result<(), String> {
        // Bindings of mutating policies have the same fields.
        let spec = FieldRef::<Binding>::root(review.object).at(Binding::SPEC).detached();
        let Some(reference) = spec.at(BindingSpec::PARAM_REF).detached().set() else { return Ok(()) };
        let resource = self.resource_of_policy(spec.at(BindingSpec::POLICY_NAME).str()).await;
        let (name, namespace) = (reference.at(ParamRef::NAME).str(), reference.at(ParamRef::NAMESPACE).str());
        let verb = if name.is_empty() { "list" } else { "get" };
        let user = &review.context.user;
        let is_allowed = self.allows(user, verb, &resource, namespace, name).await;
        let is_allowed = is_allowed.map_err(|error| match self.resource {
            PolicyResource::ValidatingBindings => format!("failed to authorize request: {error}"),
            _ => error,
        });
        if is_allowed? {
            return Ok(());
        }
        let user = go_string(user);
        Err(match (&resource.unknown, self.resource) {
            (Some(unknown), _) => format!(
                "{unknown} to determine minimum required permissions and user {user} does not have \"{verb}\" permission \
                 for all groups, versions and resources"
            ),
            // kube-apiserver swaps the user and the verb in this message.
            (None, PolicyResource::MutatingBindings) => {
                format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
            }
            (None, _) => {
                format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
            }
        })
    }

    /// Returns the resource of a policy's parameters.
    async fn resource_of_policy(&self, name: &str) -> ParamResource {
        let plural = match self.resource {
            PolicyResource::MutatingBindings => PolicyResource::MutatingPolicies.plural(),
            _ => PolicyResource::ValidatingPolicies.plural(),
        };
        let policy = match self.resources.find(GROUP, "v1", plural) {
            Some(policies) => policies.get_object(&Context::internal(""), name, Match::Consistent).await.ok(),
            None => None,
        };
        let Some(policy) = policy else { return ParamResource::anything(format!("unable to get policy {name}")) };
        match param_kind(&policy.object) {
            Some(kind) => self.resource_of_kind(kind),
            None => ParamResource { unknown: None, ..ParamResource::anything(String::new()) },
        }
    }

    fn resource_of_kind(&self, kind: FieldRef<ParamKind>) -> ParamResource {
        let (api_version, kind) = (kind.at(ParamKind::API_VERSION).str(), kind.at(ParamKind::KIND).str());
        let param_kind_text = || format!("paramKind &ParamKind{{APIVersion:{api_version},Kind:{kind},}}");
        let Some(version) = GroupVersion::parse(api_version) else {
            return ParamResource::anything(format!("unable to parse {}", param_kind_text()));
        };
        let snapshot = self.resources.snapshot();
        let found = snapshot.served().find_kind(&version.group, &version.version, kind);
        let resource = found.map_or("*".to_owned(), |found| found.plural.to_string());
        let unknown = found.is_none().then(|| format!("unable to resolve {}", param_kind_text()));
        ParamResource { group: version.group.to_string(), version: version.version.to_string(), resource, unknown }
    }

    async fn allows(
        &self,
        user: &User,
        verb: &str,
        resource: &ParamResource,
        namespace: &str,
        name: &str,
    ) -> Result<bool, String> {
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: &resource.group,
            api_version: &resource.version,
            resource: &resource.resource,
            namespace,
            name,
            ..Attributes::nothing(user)
        };
        let decision = self.authorizer.authorize(&attributes).await;
        decision.map(|decision| decision.is_allow()).map_err(|error| error.message)
    }
}

impl ParamResource {
    fn anything(why: String) -> Self {
        let any = || "*".to_owned();
        Self { group: any(), version: any(), resource: any(), unknown: Some(why) }
    }
}

/// Returns `paramKind` of a validating policy, or of a mutating one, which has the same field.
fn param_kind(policy: &Value) -> Option<FieldRef<'static, '_, ParamKind>> {
    FieldRef::<Policy>::root(policy).at(Policy::SPEC).at(PolicySpec::PARAM_KIND).detached().set()
}

/// Formats a user as Go does.
fn go_string(user: &User) -> String {
    let extra =
        |(name, values): (&binnacle_meta::Text, &Vec<binnacle_meta::Text>)| format!("{name}:[{}]", values.join(" "));
    let extra: Vec<String> = user.extra.iter().map(extra).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
