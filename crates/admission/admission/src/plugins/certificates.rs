//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction: the permissions
//! to approve and sign certificate signing requests and to write trust bundles of a signer, and subjects that must not
//! be requested.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_authz::{Authorizer, is_allowed_for_signer};
use binnacle_fields::FieldRef;
use binnacle_fields::certificates::v1::{
    CertificateSigningRequest as Csr, CertificateSigningRequestSpec as Spec, CertificateSigningRequestStatus,
};
use binnacle_fields::certificates::v1beta1::{ClusterTrustBundle, ClusterTrustBundleSpec};
use binnacle_meta::{Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_registry::object::changes_only_garbage_collector_fields;
use binnacle_request::{BoxFuture, User};
use binnacle_schema::Value;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// The signer of client certificates for API servers.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Checks permissions for signers: the verb `approve` to approve, and `sign` to sign.
pub(crate) struct SignerPermission {
    authorizer: Arc<dyn Authorizer>,
    name: &'static str,
    subresource: &'static str,
    verb: &'static str,
}

impl SignerPermission {
    pub(crate) fn to_approve(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, name: "CertificateApproval", subresource: "approval", verb: "approve" }
    }

    pub(crate) fn to_sign(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, name: "CertificateSigning", subresource: "status", verb: "sign" }
    }
}

impl Plugin for SignerPermission {
    fn name(&self) -> &'static str {
        self.name
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Update
            && attributes.subresource == self.subresource
            && is_any_of(attributes, GROUP, REQUESTS)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            // The signer of the old object is used, since the client may have changed it in the new one.
            let Some(old) = request.old else { return Ok(()) };
            let [new, old] = [object, old].map(FieldRef::<Csr>::root);
            if self.subresource == "status" && !changes_result(new, old) {
                return Ok(());
            }
            let signer = old.at(Csr::SPEC).at(Spec::SIGNER_NAME).str();
            if is_allowed_for_signer(&*self.authorizer, &request.attributes.user, self.verb, signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to {} requests with signerName {}", self.verb, go_quote(signer));
            Err(forbidden(request.attributes, object, why))
        })
    }
}

/// Returns true if an update changes the certificate or the conditions of a CSR.
fn changes_result(new: FieldRef<Csr>, old: FieldRef<Csr>) -> bool {
    let (new, old) = (new.at(Csr::STATUS), old.at(Csr::STATUS));
    new.at(CertificateSigningRequestStatus::CERTIFICATE).value()
        != old.at(CertificateSigningRequestStatus::CERTIFICATE).value()
        || new.at(CertificateSigningRequestStatus::CONDITIONS).value()
            != old.at(CertificateSigningRequestStatus::CONDITIONS).value()
}

/// Checks the permission to write a signer's trust bundle: the verb `attest` for the signer (KEP-3257).
pub(crate) struct TrustBundleAttest {
    authorizer: Arc<dyn Authorizer>,
    /// True if the feature gate `ClusterTrustBundle` is enabled.
    enabled: bool,
}

impl TrustBundleAttest {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>, enabled: bool) -> Self {
        Self { authorizer, enabled }
    }
}

impl Plugin for TrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_any_of(attributes, GROUP, "clustertrustbundles")
            && self.enabled
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            // The signer of the new object is used, since validation rejects changes to it.
            let bundle = FieldRef::<ClusterTrustBundle>::root(object);
            let signer = bundle.at(ClusterTrustBundle::SPEC).at(ClusterTrustBundleSpec::SIGNER_NAME).str();
            let unchanged = request.old.is_some_and(|old| changes_only_garbage_collector_fields(object, old));
            let user = &request.attributes.user;
            if signer.is_empty() || unchanged || is_allowed_for_signer(&*self.authorizer, user, "attest", signer).await
            {
                return Ok(());
            }
            let why = format!("user not permitted to attest for signerName {}", go_quote(signer));
            Err(forbidden(request.attributes, object, why))
        })
    }
}

/// Rejects requests for client certificates of members of `system:masters`.
pub(crate) struct SubjectRestriction;

impl Plugin for SubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Create
            && attributes.subresource.is_empty()
            && is_any_of(attributes, GROUP, REQUESTS)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = restrict(object).map_err(|why| forbidden(request.attributes, object, why));
        Box::pin(async { outcome })
    }
}

fn restrict(object: &Value) -> Result<(), String> {
    if FieldRef::<Csr>::root(object).at(Csr::SPEC).at(Spec::SIGNER_NAME).str() != CLIENT_SIGNER {
        return Ok(());
    }
    // An organization that cannot be decoded may be the group.
    let is_masters =
        |organization: &AttributeTypeAndValue<'_>| organization.as_str().map_or(true, |name| name == User::MASTERS);
    let becomes_master = of_subject(object, |subject| subject.iter_organization().any(is_masters));
    if becomes_master.map_err(|why| format!("failed to parse CSR: {why}"))? {
        return Err(format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed"));
    }
    Ok(())
}

/// Calls `read` with the subject of a CertificateSigningRequest.
pub(super) fn of_subject<T>(object: &Value, read: impl FnOnce(&X509Name<'_>) -> T) -> Result<T, &'static str> {
    let request = FieldRef::<Csr>::root(object).at(Csr::SPEC).at(Spec::REQUEST).str();
    let pem = BASE64_STANDARD.decode(request).unwrap_or_default();
    let der =
        CertificateSigningRequestDer::from_pem_slice(&pem).map_err(|_| "PEM block type must be CERTIFICATE REQUEST")?;
    let (_, parsed) = X509CertificationRequest::from_der(&der).map_err(|_| "x509: malformed certificate request")?;
    Ok(read(&parsed.certification_request_info.subject))
}

#[cfg(test)]
mod tests {
    use binnacle_authz::{Attributes as Access, AuthzError};
    use binnacle_registry::RequestNotes;
    use binnacle_registry::admission::Admission;
    use binnacle_request::Decision;
    use binnacle_schema::value;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;
    use crate::testing::attributes;

    struct AccessListAuthorizer(&'static str);

    impl Authorizer for AccessListAuthorizer {
        fn authorize<'a>(&'a self, access: &'a Access<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
            let allowed = format!("{} {} {}", access.verb, access.resource, access.name) == self.0;
            let decision = if allowed { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) };
            Box::pin(async { Ok(decision) })
        }
    }

    async fn validate_all(
        allows: &'static str,
        subresource: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), String> {
        let authorizer: Arc<dyn Authorizer> = Arc::new(AccessListAuthorizer(allows));
        let plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(SignerPermission::to_approve(authorizer.clone())),
            Arc::new(SignerPermission::to_sign(authorizer)),
            Arc::new(SubjectRestriction),
        ];
        let chain = crate::Chain::new(plugins, &crate::Metrics::fresh()).unwrap();
        let attributes = Attributes {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            kind: binnacle_meta::GroupVersionKind::new(GROUP, "v1", "CertificateSigningRequest"),
            resource: binnacle_meta::GroupVersionResource::new(GROUP, "v1", REQUESTS),
            subresource: subresource.into(),
            namespace: "".into(),
            name: "r".into(),
            user: User::new("me", &[]),
            ..crate::testing::pods(Operation::Update)
        };
        let outcome = chain.validate(&attributes, &object.clone().into(), old, &RequestNotes::default()).await;
        outcome.map_err(|status| status.message().to_owned())
    }

    #[tokio::test]
    async fn requires_permission_for_the_signer() {
        let old = value!({"spec": {"signerName": "a.b/c"}});
        let signed = value!({"spec": {"signerName": "x.y/z"}, "status": {"certificate": "Zm9v"}});
        let refused = |verb: &str| {
            Err(format!(
                "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to {verb} requests with signerName \"a.b/c\""
            ))
        };
        for (allows, subresource, object, want) in [
            ("approve signers a.b/c", "approval", &old, Ok(())),
            ("approve signers a.b/*", "approval", &old, Ok(())),
            ("approve signers x.y/z", "approval", &signed, refused("approve")),
            ("sign signers a.b/c", "approval", &old, refused("approve")),
            ("sign signers a.b/c", "status", &signed, Ok(())),
            ("", "status", &signed, refused("sign")),
            ("", "status", &old, Ok(())),
            ("", "", &signed, Ok(())),
        ] {
            assert_eq!(validate_all(allows, subresource, object, Some(&old)).await, want, "{allows} {subresource}");
        }
    }

    #[tokio::test]
    async fn requires_permission_to_attest() {
        let bundle = |signer: &str, text: &str| value!({"metadata": {"name": "b"}, "spec": {"signerName": signer, "trustBundle": text}});
        let mut collected = bundle("a.b/c", "x");
        collected.make_at(&["metadata"]).insert("finalizers", value!(["d.e/f"]));
        let refused = "clustertrustbundles.certificates.k8s.io \"b\" is forbidden: user not permitted to attest for signerName \"a.b/c\"";
        for (allows, old, new, want) in [
            ("attest signers a.b/c", None, bundle("a.b/c", "x"), true),
            ("attest signers a.b/*", None, bundle("a.b/c", "x"), true),
            ("attest signers d.e/f", None, bundle("a.b/c", "x"), false),
            ("", None, bundle("", "x"), true),
            ("", Some(bundle("a.b/c", "x")), bundle("a.b/c", "y"), false),
            ("", Some(bundle("a.b/c", "x")), collected, true),
        ] {
            let plugin = TrustBundleAttest::new(Arc::new(AccessListAuthorizer(allows)), true);
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            let bundles = [GROUP, "v1beta1", "clustertrustbundles"];
            let attributes =
                Attributes { name: "b".into(), ..attributes(operation, bundles, "ClusterTrustBundle", "") };
            let outcome = plugin
                .validate(Request::new(&attributes, old.as_ref(), &RequestNotes::default()), &new.clone().into())
                .await;
            let message = outcome.err().map(|status| status.message().to_owned());
            assert_eq!(message, (!want).then(|| refused.to_owned()), "{allows} {new:?}");
        }
    }

    #[tokio::test]
    async fn rejects_client_certificates_of_masters() {
        let request = |organization: &str, signer: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, organization);
            let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
            value!({"spec": {"signerName": signer, "request": (BASE64_STANDARD.encode(pem))}})
        };
        let prefix = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: ";
        for (object, want) in [
            (request("dev", CLIENT_SIGNER), Ok(())),
            (request("system:masters", "a.b/c"), Ok(())),
            (
                request("system:masters", CLIENT_SIGNER),
                Err("use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"),
            ),
            (
                value!({"spec": {"signerName": CLIENT_SIGNER, "request": "AAAA"}}),
                Err("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"),
            ),
        ] {
            assert_eq!(validate_all("", "", &object, None).await, want.map_err(|why| format!("{prefix}{why}")));
        }
    }
}
