//! Maps the claims of a verified token to a user, and validates both.

use std::collections::BTreeMap;

use binnacle_meta::{Text, go_quote};
use binnacle_request::User;
use serde_json::{Map, Value};

use super::Rules;
use crate::claims::Claims;
use crate::config::{JwtAuthenticator, PrefixedClaimOrExpression};

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Maps claims to a user and validates both in kube-apiserver's order. Returns the first error.
pub(super) fn user(config: &JwtAuthenticator, rules: &Rules, claims: &Value) -> Result<User, String> {
    let empty = Map::new();
    let raw = claims.as_object().unwrap_or(&empty);
    let cel_claims = if rules.uses_claims() { Claims::of(claims) } else { Claims::of(&Value::Null) };
    let mappings = &config.claim_mappings;
    let user = User {
        name: username(&mappings.username, rules, raw, &cel_claims)?.into(),
        groups: groups(&mappings.groups, rules, raw, &cel_claims)?,
        uid: uid(&mappings.uid.claim, rules, raw, &cel_claims)?.into(),
        extra: extra(rules, raw, &cel_claims)?,
    };
    for rule in config.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        let (claim, want) = (&rule.claim, &rule.required_value);
        let value = raw.get(claim).ok_or_else(|| format!("oidc: required claim {claim} not present in ID token"))?;
        let got = text(value).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
        if got != *want {
            return Err(format!("oidc: required claim {claim} value does not match. Got = {got}, want = {want}"));
        }
    }
    for (rule, message) in &rules.claims {
        rule.require(&cel_claims, message)
            .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
    }
    if !rules.user.is_empty() {
        let cel_claims = Claims::of(&serde_json::json!({
            "username": *user.name, "uid": *user.uid, "groups": texts(&user.groups),
            "extra": user.extra.iter().map(|(key, values)| (key.to_string(), texts(values))).collect::<Map<_, _>>(),
        }));
        for (rule, message) in &rules.user {
            rule.require(&cel_claims, message)
                .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
        }
    }
    Ok(user)
}

fn texts(texts: &[Text]) -> Value {
    texts.iter().map(Text::as_str).collect()
}

fn username(
    mapping: &PrefixedClaimOrExpression,
    rules: &Rules,
    raw: &Map<String, Value>,
    cel_claims: &Claims,
) -> Result<String, String> {
    if let Some(expression) = &rules.username {
        let failed = |why: &str| format!("oidc: error evaluating username claim expression: {why}");
        let name = expression.text(cel_claims).map_err(|why| failed(&why))?;
        let name = name.ok_or_else(|| failed("username claim expression must return a string"))?;
        let empty = "oidc: empty username via CEL expression is not allowed".to_owned();
        return if name.is_empty() { Err(empty) } else { Ok(name) };
    }
    let claim = &mapping.claim;
    // A user needs a name; kube-apiserver decodes null as an empty one.
    let value = raw.get(claim).filter(|value| !value.is_null());
    let name = value.map_or_else(|| Err("claim not present".to_owned()), text);
    let name = name.map_err(|why| format!("oidc: parse username claims {}: {why}", go_quote(claim)))?;
    if claim == "email"
        && let Some(verified) = raw.get("email_verified")
    {
        match verified {
            Value::Bool(true) => {}
            Value::Bool(false) | Value::Null => return Err("oidc: email not verified".to_owned()),
            other => {
                let found = go_name(other);
                let why = format!("json: cannot unmarshal {found} into Go value of type bool");
                return Err(format!("oidc: parse 'email_verified' claim: {why}"));
            }
        }
    }
    Ok(format!("{}{name}", mapping.prefix.as_deref().unwrap_or_default()))
}

fn groups(
    mapping: &PrefixedClaimOrExpression,
    rules: &Rules,
    raw: &Map<String, Value>,
    cel_claims: &Claims,
) -> Result<Vec<Text>, String> {
    if let Some(expression) = &rules.groups {
        return expression
            .texts(cel_claims)
            .map_err(|why| format!("oidc: error evaluating group claim expression: {why}"));
    }
    let Some(value) = raw.get(&mapping.claim).filter(|_| !mapping.claim.is_empty()) else { return Ok(Vec::new()) };
    let prefix = mapping.prefix.as_deref().unwrap_or_default();
    let prefixed = |group: &str| Text::from(format!("{prefix}{group}"));
    match value {
        Value::Null => Ok(Vec::new()),
        // Some providers send a single group as a string.
        Value::String(one) => Ok(vec![prefixed(one)]),
        Value::Array(many) if many.iter().all(Value::is_string) => {
            Ok(many.iter().filter_map(Value::as_str).map(prefixed).collect())
        }
        other => {
            let (claim, found) = (go_quote(&mapping.claim), go_name(other));
            let why = format!("json: cannot unmarshal {found} into Go value of type string");
            Err(format!("oidc: parse groups claim {claim}: {why}"))
        }
    }
}

fn uid(claim: &str, rules: &Rules, raw: &Map<String, Value>, cel_claims: &Claims) -> Result<String, String> {
    if !claim.is_empty() {
        let uid = raw.get(claim).map_or_else(|| Err("claim not present".to_owned()), text);
        return uid.map_err(|why| format!("oidc: parse uid claim {}: {why}", go_quote(claim)));
    }
    let Some(expression) = &rules.uid else { return Ok(String::new()) };
    let failed = |why: &str| format!("oidc: error evaluating uid claim expression: {why}");
    let uid = expression.text(cel_claims).map_err(|why| failed(&why))?;
    uid.ok_or_else(|| failed("uid claim expression must return a string"))
}

fn extra(rules: &Rules, raw: &Map<String, Value>, cel_claims: &Claims) -> Result<BTreeMap<Text, Vec<Text>>, String> {
    let mut extra = BTreeMap::new();
    if let Some(id) = raw.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        extra.insert(Text::new_static(CREDENTIAL_ID), vec![format!("JTI={id}").into()]);
    }
    for (key, expression) in &rules.extra {
        let values = expression
            .texts(cel_claims)
            .map_err(|why| format!("oidc: error evaluating extra claim expression: {why}"))?;
        if !values.is_empty() {
            extra.insert(key.clone(), values);
        }
    }
    Ok(extra)
}

/// Returns a claim that must be a string. kube-apiserver decodes null as an empty one.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", go_name(other))),
    }
}

fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
