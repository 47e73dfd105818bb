//! Validation of a configuration, with kube-apiserver's messages.

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json, value};
use binnacle_validation::domains::domain_prefixed_path;
use binnacle_validation::url::Url;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::{
    AuthenticationConfig, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator, PrefixedClaimOrExpression,
    UserValidationRule,
};
use crate::claim_rules::{Expression, Rules};

const MAX_ISSUERS: usize = 64;
const MATCH_ANY: &str = "MatchAny";

pub(super) fn validate(config: &AuthenticationConfig, disallowed: &[String]) -> (Vec<Rules>, FieldErrors) {
    let mut errors = FieldErrors::new();
    let root = FieldPath::new("jwt");
    if config.jwt.len() > MAX_ISSUERS {
        errors.push(FieldError::too_many(&root, config.jwt.len(), MAX_ISSUERS));
        return (Vec::new(), errors);
    }
    let mut rules = Vec::new();
    for (at, authenticator) in config.jwt.iter().enumerate() {
        let path = root.index(at);
        rules.push(jwt(authenticator, &path, disallowed, &mut errors));
        let issuer = &authenticator.issuer;
        let earlier = || config.jwt[..at].iter().map(|earlier| &earlier.issuer);
        if earlier().any(|earlier| earlier.url == issuer.url) {
            errors.push(FieldError::duplicate(&path.child("issuer").child("url"), &issuer.url));
        }
        if !issuer.discovery_url.is_empty() && earlier().any(|earlier| earlier.discovery_url == issuer.discovery_url) {
            errors.push(FieldError::duplicate(&path.child("issuer").child("discoveryURL"), &issuer.discovery_url));
        }
    }
    if let Some(anonymous) = &config.anonymous
        && !anonymous.enabled
        && !anonymous.paths.is_empty()
    {
        // kube-apiserver prints its internal type, whose field names are capitalized.
        let shown = anonymous.paths.iter().map(|path| value!({"Path": (path.as_str())})).collect();
        errors.push(FieldError::invalid(
            &FieldPath::new("anonymous").child("conditions"),
            ErrorValue::raw(json::to_string(&Value::List(shown))),
            "enabled should be set to true when conditions are defined",
        ));
    }
    (rules, errors)
}

pub(super) fn anonymous_changed() -> FieldError {
    FieldError::forbidden(&FieldPath::new("anonymous"), "changed from initial configuration file")
}

fn jwt(authenticator: &JwtAuthenticator, path: &FieldPath, disallowed: &[String], errors: &mut FieldErrors) -> Rules {
    let mut rules = Rules::default();
    issuer(&authenticator.issuer, &path.child("issuer"), disallowed, errors);
    claim_rules(&authenticator.claim_validation_rules, &path.child("claimValidationRules"), &mut rules, errors);
    mappings(&authenticator.claim_mappings, &path.child("claimMappings"), &mut rules, errors);
    user_rules(&authenticator.user_validation_rules, &path.child("userValidationRules"), &mut rules, errors);
    rules
}

fn issuer(issuer: &Issuer, path: &FieldPath, disallowed: &[String], errors: &mut FieldErrors) {
    if issuer.url.is_empty() {
        errors.push(FieldError::required(&path.child("url"), ""));
    } else {
        url(&issuer.url, disallowed, &path.child("url"), errors);
    }
    if !issuer.discovery_url.is_empty() {
        let path = path.child("discoveryURL");
        let without_slash = |url: &str| url.trim_end_matches('/').to_owned();
        if !issuer.url.is_empty() && without_slash(&issuer.url) == without_slash(&issuer.discovery_url) {
            let why = "discoveryURL must be different from URL";
            errors.push(FieldError::invalid(&path, &issuer.discovery_url, why));
        }
        url(&issuer.discovery_url, &[], &path, errors);
    }
    audiences(issuer, path, errors);
    if !issuer.certificate_authority.is_empty()
        && let Err(why) = authorities(&issuer.certificate_authority)
    {
        errors.push(FieldError::invalid(&path.child("certificateAuthority"), "<omitted>", why));
    }
    if !matches!(issuer.egress_selector_type.as_str(), "" | "controlplane" | "cluster") {
        let why = "egress selector must be either controlplane or cluster";
        errors.push(FieldError::invalid(&path.child("egressSelectorType"), &issuer.egress_selector_type, why));
    }
}

fn url(text: &str, disallowed: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    if disallowed.iter().any(|issuer| issuer == text) {
        let mut sorted = disallowed.to_vec();
        sorted.sort();
        sorted.dedup();
        let why = format!("URL must not overlap with disallowed issuers: [{}]", sorted.join(" "));
        errors.push(FieldError::invalid(path, text, why));
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            errors.push(FieldError::invalid(path, text, why));
            return;
        }
    };
    for (wrong, why) in [
        (url.scheme != "https", "URL scheme must be https"),
        (url.user.is_some(), "URL must not contain a username or password"),
        (!url.query.is_empty(), "URL must not contain a query"),
        (!url.fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if wrong {
            errors.push(FieldError::invalid(path, text, why));
        }
    }
}

fn audiences(issuer: &Issuer, path: &FieldPath, errors: &mut FieldErrors) {
    let (at, policy_at) = (path.child("audiences"), path.child("audienceMatchPolicy"));
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    if audiences.is_empty() {
        errors.push(FieldError::required(&at, format!("at least one {} is required", at.as_str())));
        return;
    }
    for (index, audience) in audiences.iter().enumerate() {
        let at = at.index(index);
        if audience.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if audiences[..index].contains(audience) {
            errors.push(FieldError::duplicate(&at, audience));
        }
    }
    if audiences.len() > 1 && policy != MATCH_ANY {
        let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
        errors.push(FieldError::invalid(&policy_at, policy, why));
    }
    if audiences.len() == 1 && !matches!(policy, "" | MATCH_ANY) {
        let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
        errors.push(FieldError::invalid(&policy_at, policy, why));
    }
}

/// Validates a bundle. As in client-go, other PEM blocks are ignored, but an invalid certificate or an empty bundle is
/// an error.
fn authorities(pem: &str) -> Result<(), &'static str> {
    let mut any = false;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "data does not contain any valid RSA or ECDSA certificates")?;
        x509_parser::parse_x509_certificate(&certificate).map_err(|_| "x509: malformed certificate")?;
        any = true;
    }
    if any { Ok(()) } else { Err("data does not contain any valid RSA or ECDSA certificates") }
}

fn claim_rules(list: &[ClaimValidationRule], path: &FieldPath, rules: &mut Rules, errors: &mut FieldErrors) {
    for (at, rule) in list.iter().enumerate() {
        let (path, earlier) = (path.index(at), &list[..at]);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let why = "may not be specified when claim is set";
                    errors.push(FieldError::invalid(&path.child("message"), &rule.message, why));
                }
                if earlier.iter().any(|earlier| earlier.expression.is_empty() && earlier.claim == claim) {
                    errors.push(FieldError::duplicate(&path.child("claim"), claim));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    errors.push(FieldError::invalid(&path.child("requiredValue"), &rule.required_value, why));
                }
                let path = path.child("expression");
                if earlier.iter().any(|earlier| earlier.claim.is_empty() && earlier.expression == expression) {
                    errors.push(FieldError::duplicate(&path, expression));
                } else if let Some(compiled) =
                    ok_or_report(Expression::rule_of_claims(expression), expression, &path, errors)
                {
                    rules.claims.push((compiled, rule.message.clone()));
                }
            }
            (claim, _) => {
                errors.push(FieldError::invalid(&path, claim, "claim and expression can't both be set"));
            }
        }
    }
}

fn mappings(mappings: &ClaimMappings, path: &FieldPath, rules: &mut Rules, errors: &mut FieldErrors) {
    rules.username = prefixed(&mappings.username, &path.child("username"), true, errors);
    rules.groups = prefixed(&mappings.groups, &path.child("groups"), false, errors);
    let uid = &mappings.uid;
    if !uid.claim.is_empty() && !uid.expression.is_empty() {
        errors.push(FieldError::invalid(&path.child("uid"), "", "claim and expression can't both be set"));
    } else if !uid.expression.is_empty() {
        let path = path.child("uid").child("expression");
        rules.uid = ok_or_report(Expression::of_claims(&uid.expression), &uid.expression, &path, errors);
    }
    for (at, mapping) in mappings.extra.iter().enumerate() {
        let path = path.child("extra").index(at);
        let (key, key_at) = (mapping.key.as_str(), path.child("key"));
        domain_prefixed_path(&key_at, key, errors);
        if key.to_lowercase() != key {
            errors.push(FieldError::invalid(&key_at, key, "must be lowercase"));
        }
        if is_reserved(key) {
            let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(FieldError::invalid(&key_at, key, why));
        }
        if mappings.extra[..at].iter().any(|earlier| earlier.key == key) {
            errors.push(FieldError::duplicate(&key_at, key));
            continue;
        }
        let path = path.child("valueExpression");
        if mapping.value_expression.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let expression = Expression::of_claims(&mapping.value_expression);
        if let Some(compiled) = ok_or_report(expression, &mapping.value_expression, &path, errors) {
            rules.extra.push((key.into(), compiled));
        }
    }
    if !rules.checks_email_verified() {
        errors.push(FieldError::invalid(
            &path.child("username").child("expression"),
            &mappings.username.expression,
            "claims.email_verified must be used in claimMappings.username.expression or \
             claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
             claimMappings.username.expression",
        ));
    }
}

fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn prefixed(
    mapping: &PrefixedClaimOrExpression,
    path: &FieldPath,
    required: bool,
    errors: &mut FieldErrors,
) -> Option<Expression> {
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") => {
            if required {
                errors.push(FieldError::required(path, "claim or expression is required"));
            }
            None
        }
        ("", expression) => {
            if let Some(prefix) = &mapping.prefix {
                let why = "may not be specified when expression is set";
                errors.push(FieldError::invalid(&path.child("prefix"), prefix, why));
            }
            ok_or_report(Expression::of_claims(expression), expression, &path.child("expression"), errors)
        }
        (_, "") => {
            if mapping.prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(&path.child("prefix"), why));
            }
            None
        }
        _ => {
            errors.push(FieldError::invalid(path, "", "claim and expression can't both be set"));
            None
        }
    }
}

fn user_rules(list: &[UserValidationRule], path: &FieldPath, rules: &mut Rules, errors: &mut FieldErrors) {
    for (at, rule) in list.iter().enumerate() {
        let path = path.index(at).child("expression");
        let expression = rule.expression.as_str();
        if expression.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if list[..at].iter().any(|earlier| earlier.expression == expression) {
            errors.push(FieldError::duplicate(&path, expression));
        } else if let Some(compiled) = ok_or_report(Expression::rule_of_user(expression), expression, &path, errors) {
            rules.user.push((compiled, rule.message.clone()));
        }
    }
}

fn ok_or_report(
    outcome: Result<Expression, String>,
    expression: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<Expression> {
    match outcome {
        Ok(compiled) => Some(compiled),
        Err(why) => {
            errors.push(FieldError::invalid(path, expression, why));
            None
        }
    }
}
