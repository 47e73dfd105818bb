//! Valid and invalid configuration files.

use super::AuthenticationConfig;

const V1: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

/// Returns a file with one issuer; each of `lines` replaces the default line of its key.
fn file(lines: &[&str]) -> String {
    let usual =
        ["issuer: {url: 'https://issuer.test', audiences: [a]}", "claimMappings: {username: {claim: sub, prefix: ''}}"];
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let kept = usual.iter().filter(|line| !lines.iter().any(|other| name(other) == name(line)));
    let lines: Vec<String> = kept.chain(lines).map(|line| format!("  {line}\n")).collect();
    format!("{V1}jwt:\n-{}", &lines.concat()[1..])
}

fn check(text: &str) -> Result<(), String> {
    let config = AuthenticationConfig::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    config.check(&["https://own.test".to_owned()]).map(drop).map_err(|error| error.to_string())
}

#[test]
fn accepts_valid_configurations() {
    for text in [
        V1.to_owned(),
        file(&[]),
        file(&[]).replace("k8s.io/v1\n", "k8s.io/v1beta1\n"),
        file(&[]).replace("k8s.io/v1\n", "k8s.io/v1alpha1\n"),
        file(&["claimMappings: {username: {expression: \"claims.email_verified ? claims.email : claims.sub\"}}"]),
        file(&[
            "claimMappings: {username: {expression: \"claims.email\"}}",
            "claimValidationRules: [{expression: 'claims.?email_verified.orValue(true) == true'}]",
        ]),
        format!("{V1}anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}"),
    ] {
        assert_eq!(check(&text), Ok(()), "{text}");
    }
}

/// Checks the message of kube-apiserver for invalid configurations.
fn check_rejected(cases: impl IntoIterator<Item = (String, String)>) {
    for (text, want) in cases {
        assert_eq!(check(&text), Err(want), "{text}");
    }
}

fn invalid(why: &str) -> String {
    format!("invalid authentication configuration: {why}")
}

const BOTH: &str = "claim and expression can't both be set";

#[test]
fn rejects_invalid_issuers() {
    let issuer = |rest: &str| file(&[&format!("issuer: {{{rest}}}")]);
    check_rejected([
        (String::new(), "empty config data".to_owned()),
        (format!("{V1}jtw: []"), "strict decoding error: unknown field \"jtw\"".to_owned()),
        (
            file(&["issuer: {url: 1}"]),
            "json: cannot unmarshal number into Go struct field Issuer.jwt.issuer.url of type string".to_owned(),
        ),
        (issuer("audiences: [a]"), invalid("jwt[0].issuer.url: Required value")),
        (
            issuer("url: 'http://u:p@x/?q#f', audiences: [a]"),
            invalid(
                "[jwt[0].issuer.url: Invalid value: \"http://u:p@x/?q#f\": URL scheme must be https, jwt[0].issuer.url: Invalid \
                 value: \"http://u:p@x/?q#f\": URL must not contain a username or password, jwt[0].issuer.url: Invalid value: \
                 \"http://u:p@x/?q#f\": URL must not contain a query, jwt[0].issuer.url: Invalid value: \"http://u:p@x/?q#f\": \
                 URL must not contain a fragment]",
            ),
        ),
        (
            issuer("url: 'https://own.test', audiences: [a]"),
            invalid(
                "jwt[0].issuer.url: Invalid value: \"https://own.test\": URL must not overlap with disallowed issuers: \
                 [https://own.test]",
            ),
        ),
        (
            issuer("url: 'https://x', discoveryURL: 'https://x/', audiences: [a]"),
            invalid(
                "jwt[0].issuer.discoveryURL: Invalid value: \"https://x/\": discoveryURL must be different from URL",
            ),
        ),
        (
            issuer("url: 'https://x'"),
            invalid("jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"),
        ),
        (
            issuer("url: 'https://x', audiences: [a, a, '']"),
            invalid(
                "[jwt[0].issuer.audiences[1]: Duplicate value: \"a\", jwt[0].issuer.audiences[2]: Required value, \
                 jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple \
                 audiences]",
            ),
        ),
        (
            issuer("url: 'https://x', audiences: [a], audienceMatchPolicy: All"),
            invalid(
                "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"All\": audienceMatchPolicy must be empty or MatchAny for \
                 single audience",
            ),
        ),
        (
            issuer("url: 'https://x', audiences: [a], certificateAuthority: none, egressSelectorType: etcd"),
            invalid(
                "[jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA \
                 certificates, jwt[0].issuer.egressSelectorType: Invalid value: \"etcd\": egress selector must be either \
                 controlplane or cluster]",
            ),
        ),
        (
            format!("{}{}", file(&[]), &file(&[])[V1.len() + 5..]),
            invalid("jwt[1].issuer.url: Duplicate value: \"https://issuer.test\""),
        ),
    ]);
    let many: String = (0..65).map(|_| "- {}\n").collect();
    let why = "jwt: Too many: 65: must have at most 64 items";
    assert_eq!(check(&format!("{V1}jwt:\n{many}")), Err(invalid(why)));
}

#[test]
fn rejects_invalid_rules_for_claims_and_users() {
    check_rejected([
        (
            file(&["claimValidationRules: [{}, {claim: a, expression: b}, {claim: a, message: m}, {claim: a}]"]),
            invalid(&format!(
                "[jwt[0].claimValidationRules[0]: Required value: claim or expression is required, \
                 jwt[0].claimValidationRules[1]: Invalid value: \"a\": {BOTH}, jwt[0].claimValidationRules[2].message: Invalid \
                 value: \"m\": may not be specified when claim is set, jwt[0].claimValidationRules[3].claim: Duplicate value: \
                 \"a\"]"
            )),
        ),
        (
            file(&[
                "claimValidationRules: [{expression: 'true', requiredValue: x}, {expression: 'true'}, {expression: '1'}]",
            ]),
            invalid(
                "[jwt[0].claimValidationRules[0].requiredValue: Invalid value: \"x\": may not be specified when expression is \
                 set, jwt[0].claimValidationRules[1].expression: Duplicate value: \"true\", \
                 jwt[0].claimValidationRules[2].expression: Invalid value: \"1\": must evaluate to bool]",
            ),
        ),
        (
            file(&["userValidationRules: [{}, {expression: user.username}, {expression: user.name == ''}]"]),
            invalid(
                "[jwt[0].userValidationRules[0].expression: Required value, jwt[0].userValidationRules[1].expression: Invalid \
                 value: \"user.username\": must evaluate to bool, jwt[0].userValidationRules[2].expression: Invalid value: \
                 \"user.name == ''\": compilation failed: ERROR: <input>:1:5: undefined field 'name'\n | user.name == ''\n | \
                 ....^]",
            ),
        ),
        (
            format!("{V1}anonymous: {{enabled: false, conditions: [{{path: /a}}]}}"),
            invalid(
                "anonymous.conditions: Invalid value: [{\"Path\":\"/a\"}]: enabled should be set to true when conditions are \
                 defined",
            ),
        ),
    ]);
}

#[test]
fn rejects_invalid_claim_mappings() {
    let mappings = |mappings: &str| file(&[&format!("claimMappings: {{{mappings}}}")]);
    let username = "username: {claim: sub, prefix: ''}";
    check_rejected([
        (mappings(""), invalid("jwt[0].claimMappings.username: Required value: claim or expression is required")),
        (
            mappings("username: {claim: a, expression: b}"),
            invalid(&format!("jwt[0].claimMappings.username: Invalid value: \"\": {BOTH}")),
        ),
        (
            mappings(
                "username: {claim: sub}, groups: {expression: claims.g, prefix: x}, uid: {claim: a, expression: b}",
            ),
            invalid(&format!(
                "[jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an \
                 empty string to disable prefixing, jwt[0].claimMappings.groups.prefix: Invalid value: \"x\": may not be \
                 specified when expression is set, jwt[0].claimMappings.uid: Invalid value: \"\": {BOTH}]"
            )),
        ),
        (
            mappings("username: {expression: claims.email}"),
            invalid(
                "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used \
                 in claimMappings.username.expression or claimMappings.extra[*].valueExpression or \
                 claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
            ),
        ),
        (
            mappings(&format!(
                "{username}, extra: [{{key: a.b/c}}, {{key: A.b/c, valueExpression: claims.x}}, {{key: x.k8s.io/c, \
                 valueExpression: claims.x}}, {{key: x.k8s.io/c}}]"
            )),
            invalid(
                "[jwt[0].claimMappings.extra[0].valueExpression: Required value, jwt[0].claimMappings.extra[1].key: Invalid \
                 value: \"A.b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), jwt[0].claimMappings.extra[1].key: \
                 Invalid value: \"A.b/c\": must be lowercase, jwt[0].claimMappings.extra[2].key: Invalid value: \
                 \"x.k8s.io/c\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use, \
                 jwt[0].claimMappings.extra[3].key: Invalid value: \"x.k8s.io/c\": k8s.io, kubernetes.io and their subdomains \
                 are reserved for Kubernetes use, jwt[0].claimMappings.extra[3].key: Duplicate value: \"x.k8s.io/c\"]",
            ),
        ),
    ]);
}
