//! ClusterTrustBundle: certificates that a signer's clients trust.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::{pem, signer_name, x509};
use crate::Features;
use crate::checks::{immutable_value, invalid_each, spec_path};
use crate::{Strategy, StrategyContext};

const BUNDLE_MAX: usize = 1024 * 1024;

const SIGNER: &[&str] = &["spec", "signerName"];
const BUNDLE: &[&str] = &["spec", "trustBundle"];

pub(crate) struct ClusterTrustBundle;

impl Strategy for ClusterTrustBundle {
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = name_and_signer(object);
        bundle(object.str_at(BUNDLE), &spec_path().child("trustBundle"), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = name_and_signer(object);
        if object.str_at(BUNDLE) != old.str_at(BUNDLE) {
            bundle(object.str_at(BUNDLE), &spec_path().child("trustBundle"), &mut errors);
        }
        immutable_value(&spec_path().child("signerName"), object.at(SIGNER), old.at(SIGNER), &mut errors);
        errors
    }

    /// Accepts every name here: the rule needs the signer, see [`name_and_signer`].
    fn validate_name(&self, _: &Features, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
}

/// Validates the name, which must begin with the signer's, so that permissions can be given by signer.
fn name_and_signer(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let signer = object.str_at(SIGNER);
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let name = object.str_at(&["metadata", field]);
        if !name.is_empty() {
            let path = FieldPath::new("metadata").child(field);
            invalid_each(&path, name, &name_messages(name, prefix, signer), &mut errors);
        }
    }
    if !signer.is_empty() {
        signer_name::validate(&spec_path().child("signerName"), signer, &mut errors);
    }
    errors
}

fn name_messages(name: &str, prefix: bool, signer: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return names::dns1123_subdomain_name(name, prefix);
    }
    let required = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&required) {
        Some(rest) => names::dns1123_subdomain_name(rest, prefix),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {required}")],
    }
}

fn bundle(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if text.len() > BUNDLE_MAX {
        errors.push(FieldError::too_long(path, BUNDLE_MAX));
        return;
    }
    let before = errors.len();
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, "<value omitted>", detail));
    let blocks = pem::blocks(text.as_bytes());
    for (i, block) in blocks.iter().enumerate() {
        if block.kind != "CERTIFICATE" {
            refuse(format!("entry {i} has bad block type: {}", block.kind));
        } else if block.has_headers {
            refuse(format!("entry {i} has PEM block headers"));
        } else {
            match x509::is_authority(&block.bytes) {
                None => refuse(format!("entry {i} does not parse as X.509")),
                Some(false) => refuse(format!("entry {i} does not have the CA bit set")),
                Some(true) => {}
            }
        }
    }
    if blocks.is_empty() {
        refuse("at least one trust anchor must be provided".to_owned());
    }
    if errors.len() > before {
        return;
    }
    for (i, block) in errors.while_room(blocks.iter().enumerate()) {
        let same: Vec<String> =
            (0..blocks.len()).filter(|j| blocks[*j].bytes == block.bytes).map(|j| j.to_string()).collect();
        if same.len() > 1 && same[0] == i.to_string() {
            let detail = format!("duplicate trust anchor (indices [{}])", same.join(" "));
            errors.push(FieldError::invalid(path, "<value omitted>", detail));
        }
    }
}
