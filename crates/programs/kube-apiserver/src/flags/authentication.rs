//! Flags for the authentication of callers.

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
            "Whether requests without credentials are served, as system:anonymous in the group system:unauthenticated.",
        ),
        Flag::new(
            "api-audiences",
            ValueKind::Value("strings"),
            "",
            "Names of this API: tokens that are made for audiences must be for one of these. If not set, the issuers of \
             service account tokens.",
        ),
        Flag::new(
            "authentication-config",
            ValueKind::Value("string"),
            "",
            "File with an AuthenticationConfiguration: issuers of ID tokens, instead of the --oidc-... flags, and the paths that \
             are open without credentials. Read again when it changes.",
        ),
        Flag::new(
            "authentication-token-webhook-cache-ttl",
            ValueKind::Value("duration"),
            "2m0s",
            "How long answers of the token webhook are remembered.",
        ),
        Flag::new(
            "authentication-token-webhook-config-file",
            ValueKind::Value("string"),
            "",
            "File in the form of a kubeconfig with the server that is asked about bearer tokens that nobody else knows.",
        ),
        Flag::new(
            "authentication-token-webhook-version",
            ValueKind::Value("string"),
            "v1beta1",
            "Version of the TokenReviews that are sent to the token webhook and expected from it: v1 or v1beta1.",
        ),
        Flag::new(
            "client-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the authorities whose client certificates are accepted: the common name is the user, the organizations \
             are the groups. If not set, the server's own authority is accepted and an administrator's certificate is made.",
        ),
        Flag::new(
            "enable-bootstrap-token-auth",
            ValueKind::Bool,
            "false",
            "Whether secrets of type bootstrap.kubernetes.io/token in kube-system are tokens, for nodes that join.",
        ),
        Flag::new(
            "oidc-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the authorities for the OpenID provider; those of the system if not set.",
        ),
        Flag::new(
            "oidc-client-id",
            ValueKind::Value("string"),
            "",
            "Client for which the OpenID provider's tokens must be made.",
        ),
        Flag::new(
            "oidc-groups-claim",
            ValueKind::Value("string"),
            "",
            "Claim with the groups of a user, one or a list.",
        ),
        Flag::new("oidc-groups-prefix", ValueKind::Value("string"), "", "What is put before each group."),
        Flag::new(
            "oidc-issuer-url",
            ValueKind::Value("string"),
            "",
            "URL of the OpenID provider, https only, whose tokens are accepted.",
        ),
        Flag::new(
            "oidc-required-claim",
            ValueKind::Value("mapStringString"),
            "",
            "Claim that must be there with a value, 'claim=value'. May be given more than once.",
        ),
        Flag::new(
            "oidc-signing-algs",
            ValueKind::Value("strings"),
            "RS256",
            "Algorithms by which tokens may be signed: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.",
        ),
        Flag::new("oidc-username-claim", ValueKind::Value("string"), "sub", "Claim with the name of a user."),
        Flag::new(
            "oidc-username-prefix",
            ValueKind::Value("string"),
            "",
            "What is put before each name; '-' for nothing. If not set, names other than by 'email' get the issuer before them.",
        ),
        Flag::new(
            "requestheader-allowed-names",
            ValueKind::Value("strings"),
            "",
            "Common names of the proxies in front that may say who is calling; any that their authority has signed if not set.",
        ),
        Flag::new(
            "requestheader-client-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the authorities for proxies in front of the server, which say in headers who is calling.",
        ),
        Flag::new(
            "requestheader-extra-headers-prefix",
            ValueKind::Value("strings"),
            "",
            "Beginnings of the headers in which such proxies say more about callers.",
        ),
        Flag::new(
            "requestheader-group-headers",
            ValueKind::Value("strings"),
            "",
            "Headers in which such proxies name groups.",
        ),
        Flag::new(
            "requestheader-uid-headers",
            ValueKind::Value("strings"),
            "",
            "Headers in which such proxies name UIDs.",
        ),
        Flag::new(
            "requestheader-username-headers",
            ValueKind::Value("strings"),
            "",
            "Headers in which such proxies name users.",
        ),
        Flag::new(
            "service-account-extend-token-expiration",
            ValueKind::Bool,
            "true",
            "Whether tokens that admission mounted into pods really live for a year, so that clients that never read them \
             again have time to be updated.",
        ),
        Flag::new(
            "service-account-issuer",
            ValueKind::Value("stringArray"),
            "https://kubernetes.default.svc",
            "Issuer of service account tokens. May be given more than once: the first issues, all are accepted.",
        ),
        Flag::new(
            "service-account-jwks-uri",
            ValueKind::Value("string"),
            "",
            "Where the key set is that the discovery document names, if it is not taken from this server.",
        ),
        Flag::new(
            "service-account-key-file",
            ValueKind::Value("stringArray"),
            "",
            "File with RSA or ECDSA keys, private or public, that service account tokens are verified by. May be given more \
             than once. If not set, the key that signs.",
        ),
        Flag::new(
            "service-account-lookup",
            ValueKind::Bool,
            "true",
            "Whether service account tokens from secrets must still be there.",
        ),
        Flag::new(
            "service-account-max-token-expiration",
            ValueKind::Value("duration"),
            "0s",
            "The longest that requested service account tokens are good for; 0 for no limit.",
        ),
        Flag::new(
            "service-account-signing-endpoint",
            ValueKind::Value("string"),
            "",
            "Path of the unix socket, or @name of the abstract one, of another process that signs service account tokens and \
             has the keys. Neither --service-account-signing-key-file nor --service-account-key-file can be given beside it.",
        ),
        Flag::new(
            "service-account-signing-key-file",
            ValueKind::Value("string"),
            "",
            "File with the private key that service account tokens are signed with. If not set, a key of the server's own.",
        ),
        Flag::new(
            "token-auth-file",
            ValueKind::Value("string"),
            "",
            "File with static bearer tokens, one 'token,user,uid,\"group1,group2\"' a line.",
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
    /// Reads the values; the configuration made of them validates them.
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
