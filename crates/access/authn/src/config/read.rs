//! Decodes `AuthenticationConfiguration` files (`apiserver.config.k8s.io`).

use binnacle_config::{Format, Types, list, text};
use binnacle_schema::{Field, Ty, Value};

use super::{
    AnonymousConfig, AuthenticationConfig, ClaimMappings, ClaimOrExpression, ClaimValidationRule, ConfigError,
    ExtraMapping, Issuer, JwtAuthenticator, PrefixedClaimOrExpression, UserValidationRule,
};

const FORMAT: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    kind: "AuthenticationConfiguration",
    scheme: "pkg/kubeapiserver/options/authentication.go:879",
    fields,
};

pub(super) fn parse(data: &[u8]) -> Result<AuthenticationConfig, ConfigError> {
    if data.is_empty() {
        return Err(ConfigError::Syntax("empty config data".to_owned()));
    }
    let file = FORMAT.read(data).map_err(|error| ConfigError::Syntax(error.0))?;
    let anonymous = file.get("anonymous").filter(|anonymous| !anonymous.is_null());
    Ok(AuthenticationConfig {
        jwt: file.list_at(&["jwt"]).iter().map(jwt).collect(),
        anonymous: anonymous.map(|anonymous| AnonymousConfig {
            enabled: anonymous.bool_at(&["enabled"]),
            paths: anonymous.list_at(&["conditions"]).iter().map(|condition| text_at(condition, "path")).collect(),
        }),
    })
}

fn text_at(value: &Value, name: &str) -> String {
    value.str_at(&[name]).to_owned()
}

fn jwt(value: &Value) -> JwtAuthenticator {
    let issuer = value.get("issuer").unwrap_or(&Value::Null);
    let mappings = value.get("claimMappings").unwrap_or(&Value::Null);
    let mapping = |name: &str| mappings.get(name).unwrap_or(&Value::Null);
    let prefixed = |name: &str| PrefixedClaimOrExpression {
        claim: text_at(mapping(name), "claim"),
        prefix: mapping(name).get("prefix").and_then(Value::as_str).map(str::to_owned),
        expression: text_at(mapping(name), "expression"),
    };
    let claim_rule = |rule: &Value| ClaimValidationRule {
        claim: text_at(rule, "claim"),
        required_value: text_at(rule, "requiredValue"),
        expression: text_at(rule, "expression"),
        message: text_at(rule, "message"),
    };
    let extra = |extra: &Value| ExtraMapping {
        key: text_at(extra, "key"),
        value_expression: text_at(extra, "valueExpression"),
    };
    let user_rule = |rule: &Value| UserValidationRule {
        expression: text_at(rule, "expression"),
        message: text_at(rule, "message"),
    };
    JwtAuthenticator {
        issuer: Issuer {
            url: text_at(issuer, "url"),
            discovery_url: text_at(issuer, "discoveryURL"),
            certificate_authority: text_at(issuer, "certificateAuthority"),
            audiences: issuer.list_at(&["audiences"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            audience_match_policy: text_at(issuer, "audienceMatchPolicy"),
            egress_selector_type: text_at(issuer, "egressSelectorType"),
        },
        claim_validation_rules: value.list_at(&["claimValidationRules"]).iter().map(claim_rule).collect(),
        claim_mappings: ClaimMappings {
            username: prefixed("username"),
            groups: prefixed("groups"),
            uid: ClaimOrExpression {
                claim: text_at(mapping("uid"), "claim"),
                expression: text_at(mapping("uid"), "expression"),
            },
            extra: mappings.list_at(&["extra"]).iter().map(extra).collect(),
        },
        user_validation_rules: value.list_at(&["userValidationRules"]).iter().map(user_rule).collect(),
    }
}

fn fields(types: Types) -> Vec<Field> {
    let issuer = types.object(
        "Issuer",
        vec![
            text("url"),
            text("discoveryURL"),
            text("certificateAuthority"),
            list("audiences", Ty::String),
            text("audienceMatchPolicy"),
            text("egressSelectorType"),
        ],
    );
    let claim_rule = ["claim", "requiredValue", "expression", "message"].map(text).to_vec();
    let prefixed = || types.object("PrefixedClaimOrExpression", ["claim", "prefix", "expression"].map(text).to_vec());
    let mappings = types.object(
        "ClaimMappings",
        vec![
            Field::new("username", prefixed()),
            Field::new("groups", prefixed()),
            Field::new("uid", types.object("ClaimOrExpression", ["claim", "expression"].map(text).to_vec())),
            list("extra", types.object("ExtraMapping", ["key", "valueExpression"].map(text).to_vec())),
        ],
    );
    let user_rule = types.object("UserValidationRule", ["expression", "message"].map(text).to_vec());
    let jwt = vec![
        Field::new("issuer", issuer),
        list("claimValidationRules", types.object("ClaimValidationRule", claim_rule)),
        Field::new("claimMappings", mappings),
        list("userValidationRules", user_rule),
    ];
    let conditions = list("conditions", types.object("AnonymousAuthCondition", vec![text("path")]));
    let anonymous = types.object("AnonymousAuthConfig", vec![Field::new("enabled", Ty::Bool), conditions]);
    vec![list("jwt", types.object("JWTAuthenticator", jwt)), Field::new("anonymous", anonymous)]
}
