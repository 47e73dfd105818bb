//! ClusterTrustBundle: certificates that a signer's clients trust.

use binnacle_fields::FieldRef;
use binnacle_fields::certificates::v1beta1::{self, ClusterTrustBundleSpec as Spec};
use binnacle_fields::types::Str;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{metadata, names};

use super::{pem, signer_name, x509};
use crate::Features;
use crate::checks::immutable;
use crate::{MetadataChecks, Strategy, StrategyContext};

const BUNDLE_MAX: usize = 1024 * 1024;

type Bundle = v1beta1::ClusterTrustBundle;

pub(crate) struct ClusterTrustBundle;

impl Strategy for ClusterTrustBundle {
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let bundle = FieldRef::<Bundle>::root(object);
        let mut errors = name_and_signer(bundle);
        certificates(bundle.at(Bundle::SPEC).at(Spec::TRUST_BUNDLE), &mut errors);
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
    }

    fn reports_metadata(&self) -> bool {
        false
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let bundle = FieldRef::<Bundle>::root(object);
        let mut errors = name_and_signer(bundle);
        let old_bundle = FieldRef::<Bundle>::root(old);
        let (spec, old_spec) = (bundle.at(Bundle::SPEC), old_bundle.at(Bundle::SPEC));
        if spec.at(Spec::TRUST_BUNDLE).str() != old_spec.at(Spec::TRUST_BUNDLE).str() {
            certificates(spec.at(Spec::TRUST_BUNDLE), &mut errors);
        }
        errors.extend(self.validate_metadata_change(object, old));
        immutable(spec.at(Spec::SIGNER_NAME), old_spec.at(Spec::SIGNER_NAME), &mut errors);
        errors
    }

    /// Accepts every name here: the rule needs the signer, see [`name_and_signer`].
    fn validate_name(&self, _: &Features, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }
}

/// Validates the metadata and the signer. The name must begin with the signer's, so that permissions can be given by
/// signer.
fn name_and_signer(bundle: FieldRef<Bundle>) -> FieldErrors {
    let (own, spec) = (bundle.at(Bundle::METADATA), bundle.at(Bundle::SPEC));
    let signer = spec.at(Spec::SIGNER_NAME);
    let rule = |name: &str, prefix: bool| name_messages(name, prefix, signer.str());
    let mut errors = metadata::validate(own.value(), false, rule, &own.path());
    errors.extend(metadata::finalizers_have_domains(own.value(), &own.path()));
    if !signer.is_empty() {
        signer_name::validate(signer, &mut errors);
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

fn certificates(bundle: FieldRef<Str>, errors: &mut FieldErrors) {
    if bundle.str().len() > BUNDLE_MAX {
        errors.push(bundle.too_long(BUNDLE_MAX));
        return;
    }
    let before = errors.len();
    let mut refuse = |detail: String| errors.push(bundle.invalid_as("<value omitted>", detail));
    let blocks = pem::blocks(bundle.str().as_bytes());
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
            errors.push(bundle.invalid_as("<value omitted>", detail));
        }
    }
}
