//! Flags for authentication.

use std::path::PathBuf;
use std::time::Duration;

use binnacle_apiserver::settings::{Authentication, Issuers, Oidc, RequestHeader, ServiceAccounts, Webhook};
use binnacle_authn::config::{ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator, PrefixedClaimOrExpression};
use binnacle_jwt::Algorithm;
use binnacle_meta::go_quote;
use binnacle_validation::url::Url;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};
use super::{FromFlags, generic};

pub(super) const GROUP: Group = Group {
    title: "Authentication",
    flags: &[
        Flag::new(
            "anonymous-auth",
            ValueKind::Bool,
            "true",
            "Accept requests without credentials as anonymous requests, with the user name system:anonymous and the \
             group system:unauthenticated. Always off with --authorization-mode=AlwaysAllow.",
        ),
        Flag::new(
            "api-audiences",
            ValueKind::Value("strings"),
            "",
            "Identifiers of the API, comma-separated: a bearer token that is bound to audiences must be bound to one \
             of them. If not set, the values of --service-account-issuer.",
        ),
        Flag::new(
            "authentication-config",
            ValueKind::Value("string"),
            "",
            "File with an AuthenticationConfiguration: JWT authenticators, and anonymous requests by path. Excludes \
             the --oidc-* flags. It is reloaded when it changes.",
        ),
        Flag::new(
            "authentication-token-webhook-cache-ttl",
            ValueKind::Value("duration"),
            "2m0s",
            "Time for which responses of the token webhook are cached.",
        ),
        Flag::new(
            "authentication-token-webhook-config-file",
            ValueKind::Value("string"),
            "",
            "File in kubeconfig format for webhook token authentication: the server that reviews bearer tokens which \
             no other authenticator accepts.",
        ),
        Flag::new(
            "authentication-token-webhook-version",
            ValueKind::Value("string"),
            "v1beta1",
            "API version of the TokenReview (authentication.k8s.io) that is exchanged with the token webhook: v1 or \
             v1beta1.",
        ),
        Flag::new(
            "client-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities for client certificates: the common name of a certificate is the \
             user name, its organizations are the groups. If not set, the server uses its own CA and issues an \
             administrator's certificate in admin.kubeconfig.",
        ),
        Flag::new(
            "enable-bootstrap-token-auth",
            ValueKind::Bool,
            "false",
            "Accept bootstrap tokens, which are secrets of type bootstrap.kubernetes.io/token in the namespace \
             kube-system, for TLS bootstrapping of nodes.",
        ),
        Flag::new(
            "oidc-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities for the OpenID Connect provider. If not set, those of the system.",
        ),
        Flag::new(
            "oidc-client-id",
            ValueKind::Value("string"),
            "",
            "Client ID for OpenID Connect: the audience that ID tokens must have. Required with --oidc-issuer-url.",
        ),
        Flag::new(
            "oidc-groups-claim",
            ValueKind::Value("string"),
            "",
            "Claim with the groups of the user, a string or a list of strings.",
        ),
        Flag::new(
            "oidc-groups-prefix",
            ValueKind::Value("string"),
            "",
            "Prefix that is added to each group, so that it differs from the groups of other authenticators.",
        ),
        Flag::new(
            "oidc-issuer-url",
            ValueKind::Value("string"),
            "",
            "URL of the OpenID Connect issuer whose ID tokens (JWT) are accepted; only https. Required with \
             --oidc-client-id.",
        ),
        Flag::new(
            "oidc-required-claim",
            ValueKind::Value("mapStringString"),
            "",
            "Claim that ID tokens must have with a value, as claim=value. May be repeated.",
        ),
        Flag::new(
            "oidc-signing-algs",
            ValueKind::Value("strings"),
            "RS256",
            "Allowed signing algorithms of ID tokens, comma-separated: RS256, RS384, RS512, ES256, ES384, ES512, \
             PS256, PS384, PS512.",
        ),
        Flag::new(
            "oidc-username-claim",
            ValueKind::Value("string"),
            "sub",
            "Claim with the user name. It should be unique and never change for a user.",
        ),
        Flag::new(
            "oidc-username-prefix",
            ValueKind::Value("string"),
            "",
            "Prefix that is added to each user name; '-' for none. If not set, it is the issuer URL and '#', and none \
             for the claim 'email'.",
        ),
        Flag::new(
            "requestheader-allowed-names",
            ValueKind::Value("strings"),
            "",
            "Common names of the client certificates of authenticating proxies, comma-separated. If not set, any \
             certificate of --requestheader-client-ca-file is accepted.",
        ),
        Flag::new(
            "requestheader-client-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities for client certificates of authenticating proxies, such as the \
             aggregator (front proxies), which set the user in request headers.",
        ),
        Flag::new(
            "requestheader-extra-headers-prefix",
            ValueKind::Value("strings"),
            "",
            "Prefixes of request headers with extra fields of the user, comma-separated, such as X-Remote-Extra-.",
        ),
        Flag::new(
            "requestheader-group-headers",
            ValueKind::Value("strings"),
            "",
            "Request headers with groups of the user, comma-separated, such as X-Remote-Group.",
        ),
        Flag::new(
            "requestheader-uid-headers",
            ValueKind::Value("strings"),
            "",
            "Request headers with the UID of the user, comma-separated; X-Remote-Uid must be one of them. Needs the \
             feature gate RemoteRequestHeaderUID.",
        ),
        Flag::new(
            "requestheader-username-headers",
            ValueKind::Value("strings"),
            "",
            "Request headers with the user name, comma-separated, such as X-Remote-User.",
        ),
        Flag::new(
            "service-account-extend-token-expiration",
            ValueKind::Bool,
            "true",
            "Extend the expiration of projected service account tokens to a year, so that clients which do not reload \
             their token keep working until they are updated.",
        ),
        Flag::new(
            "service-account-issuer",
            ValueKind::Value("stringArray"),
            "https://kubernetes.default.svc",
            "Issuer of service account tokens (claim iss), a URI or another identifier. May be repeated: new tokens \
             have the first one, tokens of all are accepted.",
        ),
        Flag::new(
            "service-account-jwks-uri",
            ValueKind::Value("string"),
            "",
            "https URI of the JSON Web Key Set in the OpenID discovery document. If not set, that of this server.",
        ),
        Flag::new(
            "service-account-key-file",
            ValueKind::Value("stringArray"),
            "",
            "File with PEM-encoded RSA or ECDSA keys, private or public, that verify service account tokens. May be \
             repeated. If not set, the signing key.",
        ),
        Flag::new(
            "service-account-lookup",
            ValueKind::Bool,
            "true",
            "Reject service account tokens from secrets that no longer exist.",
        ),
        Flag::new(
            "service-account-max-token-expiration",
            ValueKind::Value("duration"),
            "0s",
            "Maximum lifetime of tokens of the TokenRequest API, from 1h to 2^32 seconds; longer requests get this \
             lifetime. 0s means no limit.",
        ),
        Flag::new(
            "service-account-signing-endpoint",
            ValueKind::Value("string"),
            "",
            "Unix domain socket of an external signer of service account tokens: a path, or @name for an abstract \
             socket. Excludes --service-account-signing-key-file and --service-account-key-file.",
        ),
        Flag::new(
            "service-account-signing-key-file",
            ValueKind::Value("string"),
            "",
            "File with the private key that signs service account tokens. Requires --service-account-key-file. If not \
             set, a key of the server's own.",
        ),
        Flag::new(
            "token-auth-file",
            ValueKind::Value("string"),
            "",
            "CSV file with static bearer tokens, one per line: token,user,uid,\"group1,group2\".",
        ),
    ],
};

impl FromFlags for Authentication {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let path = |name| flags.text(name).map(PathBuf::from);
        let service_accounts = ServiceAccounts::read(flags)?;
        let mut api_audiences = flags.list("api-audiences");
        if api_audiences.is_empty() {
            api_audiences.clone_from(&service_accounts.issuers);
        }
        Ok(Self {
            anonymous: flags.flag("anonymous-auth")?,
            anonymous_given: flags.is_given("anonymous-auth"),
            api_audiences,
            client_ca_file: path("client-ca-file"),
            token_auth_file: path("token-auth-file"),
            bootstrap_tokens: flags.flag("enable-bootstrap-token-auth")?,
            webhook: FromFlags::read(flags)?,
            issuers: Issuers::read(flags)?,
            request_header: FromFlags::read(flags)?,
            service_accounts,
        })
    }
}

impl FromFlags for Option<Webhook> {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let Some(file) = flags.text("authentication-token-webhook-config-file") else { return Ok(None) };
        let version = flags.text("authentication-token-webhook-version").unwrap_or_default().to_owned();
        if !matches!(version.as_str(), "v1" | "v1beta1") {
            return Err(FlagError::new(format!(
                "unsupported authentication webhook version {version:?}, supported versions are \"v1\", \"v1beta1\""
            )));
        }
        let cache_ttl = flags.duration("authentication-token-webhook-cache-ttl")?;
        Ok(Some(Webhook { config_file: file.into(), version, cache_ttl }))
    }
}

const OIDC_FLAGS: [&str; 9] = [
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-signing-algs",
    "oidc-required-claim",
];

impl FromFlags for Issuers {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let any = OIDC_FLAGS.iter().any(|name| flags.is_given(name));
        if let Some(file) = flags.text("authentication-config") {
            const GATE: &str = "StructuredAuthenticationConfiguration";
            if !generic::gates(flags)?.enabled(GATE) {
                return Err(FlagError::new(format!(
                    "set --feature-gates={GATE}=true to use authentication-config file"
                )));
            }
            return match any {
                true => Err(FlagError::new("authentication-config file and oidc-* flags are mutually exclusive")),
                false => Ok(Self::File(file.into())),
            };
        }
        if any { Oidc::read(flags).map(|oidc| Self::Flags(oidc.into())) } else { Ok(Self::None) }
    }
}

impl FromFlags for Oidc {
    /// Reads the values, which the resulting configuration validates.
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let text = |name| flags.text(name).unwrap_or_default().to_owned();
        let (url, client_id) = (text("oidc-issuer-url"), text("oidc-client-id"));
        if url.is_empty() || client_id.is_empty() {
            let both = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
            return Err(FlagError::new(both));
        }
        let mut claim_validation_rules = Vec::new();
        for pair in flags.list("oidc-required-claim") {
            let Some((claim, value)) = pair.split_once('=') else {
                return Err(flags.invalid("oidc-required-claim", &pair, "malformed pair, expect string=string"));
            };
            let (claim, required_value) = (claim.to_owned(), value.to_owned());
            claim_validation_rules.push(ClaimValidationRule { claim, required_value, ..Default::default() });
        }
        let mut algorithms = Vec::new();
        for name in flags.list("oidc-signing-algs") {
            let unknown = || FlagError::new(format!("oidc: unsupported signing alg: {name:?}"));
            algorithms.push(Algorithm::from_name(&name).ok_or_else(unknown)?);
        }
        let username_claim = text("oidc-username-claim");
        let username_prefix = match text("oidc-username-prefix") {
            prefix if prefix == "-" => String::new(),
            // Names are unique within the provider only; email addresses are unique.
            prefix if prefix.is_empty() && username_claim != "email" => format!("{url}#"),
            prefix => prefix,
        };
        let groups_claim = text("oidc-groups-claim");
        let groups_prefix = (!groups_claim.is_empty()).then(|| text("oidc-groups-prefix"));
        let mapping = |claim, prefix| PrefixedClaimOrExpression { claim, prefix, ..Default::default() };
        let jwt = JwtAuthenticator {
            issuer: Issuer { url, audiences: vec![client_id], ..Issuer::default() },
            claim_validation_rules,
            claim_mappings: ClaimMappings {
                username: mapping(username_claim, Some(username_prefix)),
                groups: mapping(groups_claim, groups_prefix),
                ..ClaimMappings::default()
            },
            ..JwtAuthenticator::default()
        };
        Ok(Self { jwt, ca_file: flags.text("oidc-ca-file").map(PathBuf::from), algorithms })
    }
}

const UID_GATE: &str = "RemoteRequestHeaderUID";

impl FromFlags for Option<RequestHeader> {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let list = |name: &str| {
            let list = generic::list(flags, name);
            match list.iter().any(|entry| entry.trim().is_empty()) {
                true => Err(FlagError::new(format!("empty value in {name:?}"))),
                false => Ok(list.into_iter().map(str::to_owned).collect::<Vec<_>>()),
            }
        };
        let username_headers = list("requestheader-username-headers")?;
        let group_headers = list("requestheader-group-headers")?;
        let extra_prefixes = list("requestheader-extra-headers-prefix")?;
        let allowed_names = list("requestheader-allowed-names")?;
        let uid_headers = generic::list(flags, "requestheader-uid-headers");
        if !generic::gates(flags)?.enabled(UID_GATE) && !uid_headers.is_empty() {
            let why = format!("--requestheader-uid-headers requires the {UID_GATE:?} feature to be enabled");
            return Err(FlagError::new(why));
        }
        let uid_headers = list("requestheader-uid-headers")?;
        if !uid_headers.is_empty() && !uid_headers.iter().any(|name| name.eq_ignore_ascii_case("X-Remote-Uid")) {
            return Err(FlagError::new(
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
                 will not work",
            ));
        }
        let Some(file) = flags.text("requestheader-client-ca-file") else { return Ok(None) };
        Ok(Some(RequestHeader {
            client_ca_file: file.into(),
            allowed_names,
            username_headers,
            uid_headers,
            group_headers,
            extra_prefixes,
        }))
    }
}

impl FromFlags for ServiceAccounts {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        const HOUR: Duration = Duration::from_secs(3600);
        let owned = |name| flags.all(name).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let issuers = owned("service-account-issuer");
        for (at, issuer) in issuers.iter().enumerate() {
            if issuer.contains(':')
                && let Err(why) = Url::parse(issuer)
            {
                let shown = go_quote(issuer);
                let text = format!("service-account-issuer {shown} contained a ':' but was not a valid URL: {why}");
                return Err(FlagError::new(text));
            }
            if issuer.is_empty() {
                return Err(FlagError::new("service-account-issuer should not be an empty string"));
            }
            if issuers[..at].contains(issuer) {
                return Err(FlagError::new(format!(
                    "service-account-issuer {} is already specified",
                    go_quote(issuer)
                )));
            }
        }
        let (key_files, signing_key_file) =
            (owned("service-account-key-file"), flags.text("service-account-signing-key-file").map(PathBuf::from));
        let signing_endpoint = flags.text("service-account-signing-endpoint").map(str::to_owned);
        if let Some(endpoint) = &signing_endpoint {
            let gated = generic::gates(flags)?.enabled("ExternalServiceAccountTokenSigner");
            check_signing_endpoint(endpoint, signing_key_file.is_some(), !key_files.is_empty(), gated)?;
        }
        if signing_key_file.is_some() && key_files.is_empty() {
            return Err(FlagError::new(
                "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set",
            ));
        }
        let jwks_uri = flags.text("service-account-jwks-uri");
        if let Some(uri) = jwks_uri {
            let parsed = Url::parse(uri);
            let parsed =
                parsed.map_err(|why| FlagError::new(format!("service-account-jwks-uri must be a valid URL: {why}")))?;
            if parsed.scheme != "https" {
                return Err(FlagError::new(format!(
                    "service-account-jwks-uri requires https scheme, parsed as: {uri}"
                )));
            }
        }
        let max_expiration = flags.duration("service-account-max-token-expiration")?;
        let is_negative = flags.text("service-account-max-token-expiration").is_some_and(|text| text.starts_with('-'));
        if is_negative
            || !max_expiration.is_zero() && (max_expiration < HOUR || max_expiration > Duration::from_secs(1 << 32))
        {
            let range = "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds";
            return Err(FlagError::new(range));
        }
        Ok(Self {
            issuers,
            key_files: key_files.into_iter().map(PathBuf::from).collect(),
            signing_key_file,
            signing_endpoint,
            jwks_uri: jwks_uri.map(str::to_owned),
            lookup: flags.flag("service-account-lookup")?,
            extends: flags.flag("service-account-extend-token-expiration")?,
            max_expiration,
        })
    }
}

/// Rejects key files beside a signing endpoint, which provides all keys.
fn check_signing_endpoint(
    endpoint: &str,
    signs_by_file: bool,
    verifies_by_files: bool,
    gated: bool,
) -> Result<(), FlagError> {
    if signs_by_file {
        return Err(FlagError::new(
            "service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set \
             at the same time",
        ));
    }
    let mut wrong = Vec::new();
    if verifies_by_files {
        wrong.push(
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive)"
                .to_owned(),
        );
    }
    if !gated {
        wrong.push(
            "setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner feature gate"
                .to_owned(),
        );
    }
    if endpoint.strip_prefix('@').is_some_and(|name| !is_abstract_socket(name)) {
        wrong.push(format!(
            "invalid value {} passed for `--service-account-signing-endpoint`, when prefixed with @ must be a valid abstract \
             socket name",
            go_quote(endpoint)
        ));
    }
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(FlagError::new(one)),
        _ => Err(FlagError::new(format!("[{}]", wrong.join(", ")))),
    }
}

fn is_abstract_socket(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    name.split('.').all(is_part)
}
