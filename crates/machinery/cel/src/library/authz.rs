//! Authorization checks in expressions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use binnacle_validation::names;

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Val};

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// An authorization check of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Namespace and name of a service account that replaces the user of the request.
    pub service_account: Option<(String, String)>,
    pub verb: String,
    pub of: CheckTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckTarget {
    Path(String),
    Resource(ResourceCheck),
}

/// A resource check; empty fields were not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// The answer of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// Decides the permissions of the user of the request, or of a service account.
pub trait Authorizer: fmt::Debug + Send + Sync {
    fn authorize(&self, check: &Check) -> Decision;
}

/// Returns the value of the variable `authorizer`.
pub fn authorizer_value(authorizer: Arc<dyn Authorizer>) -> Val<'static> {
    Val::opaque(AuthorizerVal { authorizer, service_account: None })
}

/// Returns the value of the variable `authorizer.requestResource`.
pub fn resource_check_value(authorizer: Arc<dyn Authorizer>, resource: ResourceCheck) -> Val<'static> {
    Val::opaque(ResourceCheckVal { subject: AuthorizerVal { authorizer, service_account: None }, resource })
}

/// Returns the type of the variable `authorizer`.
pub fn authorizer_type() -> Type {
    Type::opaque(AUTHORIZER)
}

/// Returns the type of the variable `authorizer.requestResource`.
pub fn resource_check_type() -> Type {
    Type::opaque(RESOURCE_CHECK)
}

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION] }
}

pub(super) fn selectors() -> Library {
    Library { functions: SELECTORS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

macro_rules! refine {
    ($name:literal, $id:literal, $field:ident) => {
        FunctionDecl::each(
            $name,
            &[(
                $id,
                "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
                Some(|_, args| refined(args, |resource, value| resource.$field = value)),
            )],
        )
    };
}

macro_rules! decision {
    ($name:literal, $id:literal, $result:literal, $value:expr) => {
        FunctionDecl::each(
            $name,
            &[(
                $id,
                concat!("kubernetes.authorization.Decision.() -> ", $result),
                Some(|_, args| {
                    let decision: &Decision = args[0].as_opaque().ok_or_else(Error::no_such_overload)?;
                    Ok($value(decision))
                }),
            )],
        )
    };
}

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each(
        "path",
        &[(
            "authorizer_path",
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck",
            Some(path),
        )],
    ),
    FunctionDecl::each(
        "group",
        &[(
            "authorizer_group",
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck",
            Some(group),
        )],
    ),
    FunctionDecl::each(
        "serviceAccount",
        &[(
            "authorizer_serviceaccount",
            "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
            Some(service_account),
        )],
    ),
    FunctionDecl::each(
        "resource",
        &[(
            "groupcheck_resource",
            "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck",
            Some(resource),
        )],
    ),
    refine!("subresource", "resourcecheck_subresource", subresource),
    refine!("namespace", "resourcecheck_namespace", namespace),
    refine!("name", "resourcecheck_name", name),
    FunctionDecl::each(
        "check",
        &[
            (
                "pathcheck_check",
                "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
                Some(check),
            ),
            (
                "resourcecheck_check",
                "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
                Some(check),
            ),
        ],
    ),
    decision!("errored", "decision_errored", "bool", |d: &Decision| Val::Bool(d.error.is_some())),
    decision!("error", "decision_error", "string", |d: &Decision| Val::str(d.error.clone().unwrap_or_default())),
    decision!("allowed", "decision_allowed", "bool", |d: &Decision| Val::Bool(d.allowed)),
    decision!("reason", "decision_reason", "string", |d: &Decision| Val::str(d.reason.clone())),
];

const SELECTORS: &[FunctionDecl] = &[
    refine!("fieldSelector", "authorizer_fieldselector", field_selector),
    refine!("labelSelector", "authorizer_labelselector", label_selector),
];

#[derive(Clone, Debug)]
struct AuthorizerVal {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
}

#[derive(Clone, Debug)]
struct PathCheckVal {
    subject: AuthorizerVal,
    path: String,
}

#[derive(Clone, Debug)]
struct GroupCheckVal {
    subject: AuthorizerVal,
    group: String,
}

#[derive(Clone, Debug)]
struct ResourceCheckVal {
    subject: AuthorizerVal,
    resource: ResourceCheck,
}

macro_rules! receiver {
    ($type:ty, $name:expr, $go:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($name)
            }
        }

        impl Opaque for $type {
            fn ty(&self) -> Type {
                Type::opaque($name)
            }

            fn go_type(&self) -> &'static str {
                $go
            }

            /// Values that only have methods never compare as equal.
            fn equals(&self, _: &dyn Opaque) -> bool {
                false
            }

            fn as_any(&self) -> &dyn Any {
                self
            }
        }
    };
}

receiver!(AuthorizerVal, AUTHORIZER, "library.authorizerVal");
receiver!(PathCheckVal, PATH_CHECK, "library.pathCheckVal");
receiver!(GroupCheckVal, GROUP_CHECK, "library.groupCheckVal");
receiver!(ResourceCheckVal, RESOURCE_CHECK, "library.resourceCheckVal");
receiver!(Decision, DECISION, "library.decisionVal");

fn target<'v, T: Opaque>(args: &'v [Val<'_>]) -> std::result::Result<&'v T, Error> {
    args[0].as_opaque().ok_or_else(Error::no_such_overload)
}

fn text<'v>(args: &'v [Val<'_>], index: usize) -> std::result::Result<&'v str, Error> {
    args[index].as_str().ok_or_else(Error::no_such_overload)
}

fn path<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (subject, path) = (target::<AuthorizerVal>(args)?, text(args, 1)?);
    if path.trim().is_empty() {
        return Err(Error::new("path must not be empty"));
    }
    Ok(Val::opaque(PathCheckVal { subject: subject.clone(), path: path.to_owned() }))
}

fn group<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (subject, group) = (target::<AuthorizerVal>(args)?, text(args, 1)?);
    Ok(Val::opaque(GroupCheckVal { subject: subject.clone(), group: group.to_owned() }))
}

fn service_account<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (subject, namespace, name) = (target::<AuthorizerVal>(args)?, text(args, 1)?, text(args, 2)?);
    if !names::dns1123_subdomain_name(name, false).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !names::dns1123_label_name(namespace, false).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    let service_account = Some((namespace.to_owned(), name.to_owned()));
    Ok(Val::opaque(AuthorizerVal { service_account, ..subject.clone() }))
}

fn resource<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (of, resource) = (target::<GroupCheckVal>(args)?, text(args, 1)?);
    if resource.trim().is_empty() {
        return Err(Error::new("resource must not be empty"));
    }
    let resource = ResourceCheck { group: of.group.clone(), resource: resource.to_owned(), ..ResourceCheck::default() };
    Ok(Val::opaque(ResourceCheckVal { subject: of.subject.clone(), resource }))
}

fn refined<'a>(args: &[Val<'a>], set: fn(&mut ResourceCheck, String)) -> Result<'a> {
    let mut of = target::<ResourceCheckVal>(args)?.clone();
    set(&mut of.resource, text(args, 1)?.to_owned());
    Ok(Val::opaque(of))
}

fn check<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let verb = text(args, 1)?.to_owned();
    let (subject, of) = match args[0].as_opaque::<PathCheckVal>() {
        Some(of) => (&of.subject, CheckTarget::Path(of.path.clone())),
        None => {
            let of = target::<ResourceCheckVal>(args)?;
            (&of.subject, CheckTarget::Resource(of.resource.clone()))
        }
    };
    let check = Check { service_account: subject.service_account.clone(), verb, of };
    Ok(Val::opaque(subject.authorizer.authorize(&check)))
}
