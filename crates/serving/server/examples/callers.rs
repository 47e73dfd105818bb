//! Measures the cost of authentication and authorization: `cargo run --release -p binnacle-server --example callers`.
//!
//! Prints the time per request on a warm server for each kind of credential, with the roles and bindings of a cluster
//! that has 10,000 bindings. Only the authenticators and authorizers run, combined as in the server.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use binnacle_authn::service_account::{BoundKind, BoundObjects, FixedKeys, LegacySecret, ObjectState};
use binnacle_authn::{
    Anonymous, Authenticator, AuthnError, Authorities, Bearer, CacheTtls, Credentials, FailFast, ServiceAccountMetrics,
    ServiceAccountOptions, ServiceAccountTokens, TokenCache, TokenCacheMetrics, TokenFile, TokenUnion, Union, X509,
};
use binnacle_authz::{
    Attributes, AuthorizationConfig, Authorizer, AuthorizerConfig, AuthorizerDependencies, AuthorizerMode, Metrics,
    Node, NodeFeatures, NodeGraph, Rbac, RbacIndex, RbacKind,
};
use binnacle_jwt::private_from_pem;
use binnacle_metrics::Registry;
use binnacle_request::{BoxFuture, ConnectionInfo};
use binnacle_schema::{Value, value};
use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::CertificateDer;
use serde_json::json;

const BINDINGS: usize = 10_000;
const ROUNDS: u32 = 100_000;
const ISSUER: &str = "https://kubernetes.default.svc";

/// The pod and service account to which a token is bound exist.
struct ExistingObjects(Arc<ObjectState>);

impl BoundObjects for ExistingObjects {
    fn state<'a>(
        &'a self,
        _: BoundKind,
        _: &'a str,
        _: &'a str,
        _: bool,
    ) -> BoxFuture<'a, Result<Option<Arc<ObjectState>>, AuthnError>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn legacy_secret<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<LegacySecret>, AuthnError>> {
        Box::pin(async { Ok(None) })
    }

    fn owns_secret<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    fn note_use<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// A request's credential: the certificates of its connection and its headers.
struct Caller {
    credential: &'static str,
    connection: ConnectionInfo,
    headers: HeaderMap,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::new();
    let (authority, certificate) = certificate()?;
    let key = private_from_pem(KeyPair::generate()?.serialize_pem().as_bytes())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let token = key.sign(&json!({
        "iss": ISSUER, "sub": "system:serviceaccount:n-77:robot", "aud": [ISSUER], "iat": now, "nbf": now,
        "exp": now + 3600, "jti": "1",
        "kubernetes.io": {
            "namespace": "n-77", "serviceaccount": {"name": "robot", "uid": "u"}, "pod": {"name": "p", "uid": "u"}
        }
    }))?;
    let audiences = vec![ISSUER.into()];
    let options = ServiceAccountOptions {
        issuers: vec![ISSUER.into()],
        keys: Arc::new(FixedKeys(vec![key.public().clone()])),
        audiences: audiences.clone(),
        lookup: true,
    };
    let objects = Arc::new(ExistingObjects(Arc::new(ObjectState { uid: "u".into(), deleted: None })));
    let accounts = ServiceAccountTokens::new(options, objects, ServiceAccountMetrics::register(&registry)?);
    let file = TokenFile::parse("tokens", b"secret,user-77,1,group-77\n")?.for_audiences(audiences.clone());
    let tokens = TokenUnion::new(vec![Box::new(file), Box::new(accounts)]);
    let times = CacheTtls { success: Duration::from_secs(10), failure: Duration::ZERO };
    let tokens =
        TokenCache::new(tokens, times, TokenCacheMetrics::register(&registry)?).map_err(|error| error.to_string())?;
    let authorities = Arc::new(Authorities::from_pem("clients", authority.as_bytes())?);
    let authenticated = Union::new(vec![Box::new(X509::new(authorities)), Box::new(Bearer::new(tokens))]);
    let authenticator = FailFast(authenticated, Anonymous::new());
    let authorizer = authorizer(&registry)?;

    let bearer = |token: &str| -> Result<HeaderMap, Box<dyn std::error::Error>> {
        Ok([(http::header::AUTHORIZATION, format!("Bearer {token}").parse()?)].into_iter().collect())
    };
    let with_certificate = ConnectionInfo::new(([127, 0, 0, 1], 1).into(), vec![certificate], None);
    let plain = || ConnectionInfo::new(([127, 0, 0, 1], 1).into(), Vec::new(), None);
    for caller in [
        Caller { credential: "client certificate", connection: with_certificate, headers: HeaderMap::new() },
        Caller { credential: "static token", connection: plain(), headers: bearer("secret")? },
        Caller { credential: "bound service account token", connection: plain(), headers: bearer(&token)? },
    ] {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            for _ in 0..ROUNDS {
                authenticate_and_authorize(&authenticator, authorizer.as_ref(), &caller, &audiences).await?;
            }
            best = best.min(began.elapsed().as_secs_f64() / f64::from(ROUNDS));
        }
        println!("{:50} {:8.3} us", caller.credential, best * 1e6);
    }
    Ok(())
}

/// Authenticates a caller and authorizes it to read pods of its namespace.
async fn authenticate_and_authorize(
    authenticator: &dyn Authenticator,
    authorizer: &dyn Authorizer,
    caller: &Caller,
    audiences: &[binnacle_meta::Text],
) -> Result<(), Box<dyn std::error::Error>> {
    let credentials = Credentials {
        headers: black_box(&caller.headers),
        connection: &caller.connection,
        path: "/api/v1/namespaces/n-77/pods",
        audiences,
    };
    let authenticated = authenticator.authenticate(credentials).await.map_err(|error| error.to_string())?;
    let authenticated = authenticated.ok_or("nobody")?;
    let attributes = Attributes {
        verb: "list",
        is_resource_request: true,
        api_version: "v1",
        namespace: "n-77",
        resource: "pods",
        ..Attributes::nothing(&authenticated.user)
    };
    let decision = authorizer.authorize(&attributes).await.map_err(|error| error.to_string())?;
    if decision.is_allow() { Ok(()) } else { Err(format!("{} may not", authenticated.user.name).into()) }
}

/// Returns a CA, and a certificate that it signed for `user-77` in `group-77`.
fn certificate() -> Result<(String, CertificateDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "user-77");
    params.distinguished_name.push(DnType::OrganizationName, "group-77");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = params.signed_by(&KeyPair::generate()?, &issuer)?;
    Ok((authority, leaf.der().clone()))
}

/// Returns the default authorizers, Node and RBAC, with a role binding for a group and an account in each namespace,
/// and a cluster role binding for each user.
fn authorizer(registry: &Registry) -> Result<Arc<dyn Authorizer>, Box<dyn std::error::Error>> {
    let index = RbacIndex::default();
    let role = |namespace: &str, name: &str, resource: &str| {
        value!({"metadata": {"namespace": namespace, "name": name},
            "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": [resource]}]})
    };
    let binding = |namespace: &str, name: &str, kind: &str, role: &str, subjects: Vec<Value>| {
        value!({"metadata": {"namespace": namespace, "name": name}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
    };
    index.put(RbacKind::ClusterRole, &role("", "nodes", "nodes"));
    for number in 0..BINDINGS / 2 {
        let (namespace, name) = (format!("n-{number}"), format!("b-{number}"));
        index.put(RbacKind::Role, &role(&namespace, "pods", "pods"));
        let subjects = vec![
            value!({"kind": "Group", "name": (format!("group-{number}"))}),
            value!({"kind": "ServiceAccount", "name": "robot"}),
        ];
        index.put(RbacKind::RoleBinding, &binding(&namespace, &name, "Role", "pods", subjects));
        let user = value!({"kind": "User", "name": (format!("user-{number}"))});
        index.put(RbacKind::ClusterRoleBinding, &binding("", &name, "ClusterRole", "nodes", vec![user]));
    }
    index.ready.all();
    let (node, rbac) = (
        Arc::new(Node::new(NodeGraph::new(None), Vec::new(), NodeFeatures::default())),
        Arc::new(Rbac::new(Arc::new(index))),
    );
    let metrics = Arc::new(Metrics::register(registry)?);
    let parts =
        AuthorizerDependencies { abac: None, node: Some(node), rbac: Some(rbac), paths: None, metrics, dialer: None };
    let authorizers = [AuthorizerMode::Node, AuthorizerMode::Rbac].map(AuthorizerConfig::of).to_vec();
    Ok(Arc::new(parts.assemble(&AuthorizationConfig { authorizers })?))
}
