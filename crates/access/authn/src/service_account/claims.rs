//! The claims of bound and legacy service account tokens.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::User;
use parking_lot::Mutex;
use serde_json::Value;

use super::objects::ObjectState;
use crate::AuthnError;

/// The claims of a token whose signature was verified.
pub(super) struct VerifiedToken {
    pub(super) public: RegisteredClaims,
    pub(super) private: PrivateClaims,
    /// The result of the last check of the objects that the token is bound to.
    pub(super) checked: Mutex<Option<ObjectCheck>>,
}

/// The registered claims of RFC 7519. Times are Unix times in seconds.
pub(super) struct RegisteredClaims {
    pub(super) subject: Text,
    pub(super) audiences: Vec<Text>,
    pub(super) expires: Option<f64>,
    pub(super) not_before: Option<f64>,
    pub(super) issued: Option<f64>,
    pub(super) id: Text,
}

pub(super) enum PrivateClaims {
    Bound(BoundClaims),
    Legacy(LegacyClaims),
}

/// `kubernetes.io`.
pub(super) struct BoundClaims {
    pub(super) namespace: Text,
    pub(super) account: ObjectReference,
    pub(super) pod: Option<ObjectReference>,
    pub(super) secret: Option<ObjectReference>,
    pub(super) node: Option<ObjectReference>,
    pub(super) warn_after: Option<f64>,
}

#[derive(Clone, Default)]
pub(super) struct ObjectReference {
    pub(super) name: Text,
    pub(super) uid: Text,
}

/// `kubernetes.io/serviceaccount/...`.
pub(super) struct LegacyClaims {
    pub(super) namespace: Text,
    pub(super) secret: Text,
    pub(super) account: Text,
    pub(super) uid: Text,
}

/// The bound objects that were looked up, in order, and the user of the token.
pub(super) struct ObjectCheck {
    pub(super) objects: Vec<Arc<ObjectState>>,
    pub(super) user: Arc<User>,
}

impl VerifiedToken {
    pub(super) fn read(claims: &Value, is_legacy: bool) -> Result<Self, AuthnError> {
        let private = if is_legacy {
            let claim = |name: &str| text(&claims[format!("kubernetes.io/serviceaccount/{name}")]);
            PrivateClaims::Legacy(LegacyClaims {
                namespace: claim("namespace")?,
                secret: claim("secret.name")?,
                account: claim("service-account.name")?,
                uid: claim("service-account.uid")?,
            })
        } else {
            let own = &claims["kubernetes.io"];
            PrivateClaims::Bound(BoundClaims {
                namespace: text(&own["namespace"])?,
                account: reference(&own["serviceaccount"])?.unwrap_or_default(),
                pod: reference(&own["pod"])?,
                secret: reference(&own["secret"])?,
                node: reference(&own["node"])?,
                warn_after: time(&own["warnafter"])?.filter(|at| *at != 0.0),
            })
        };
        let public = RegisteredClaims {
            subject: text(&claims["sub"])?,
            audiences: audiences(&claims["aud"])?,
            expires: time(&claims["exp"])?,
            not_before: time(&claims["nbf"])?,
            issued: time(&claims["iat"])?,
            id: text(&claims["jti"])?,
        };
        Ok(Self { public, private, checked: Mutex::default() })
    }
}

fn malformed() -> AuthnError {
    AuthnError::new("service account token claims could not be validated due to unexpected validation error")
}

fn text(value: &Value) -> Result<Text, AuthnError> {
    match value {
        Value::Null => Ok(Text::default()),
        Value::String(text) => Ok(text.into()),
        _ => Err(malformed()),
    }
}

fn time(value: &Value) -> Result<Option<f64>, AuthnError> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => number.as_f64().map(Some).ok_or_else(malformed),
        _ => Err(malformed()),
    }
}

fn audiences(value: &Value) -> Result<Vec<Text>, AuthnError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.into()]),
        Value::Array(many) => many.iter().map(|one| one.as_str().map(Text::from).ok_or_else(malformed)).collect(),
        _ => Err(malformed()),
    }
}

fn reference(value: &Value) -> Result<Option<ObjectReference>, AuthnError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(ObjectReference { name: text(&value["name"])?, uid: text(&value["uid"])? })),
        _ => Err(malformed()),
    }
}
