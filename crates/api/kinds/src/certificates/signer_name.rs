//! Names of signers: `example.com/signer-name`.

use binnacle_fields::FieldRef;
use binnacle_fields::types::Str;
use binnacle_meta::{FieldErrors, go_quote};
use binnacle_validation::names;

const DOMAIN_MAX: usize = 253;
/// The longest name after the domain and the slash: a namespace, a dot and the name of a resource.
const MAX: usize = DOMAIN_MAX + 1 + 63 + 1 + 253;

/// Validates the name of a signer.
pub(super) fn validate(signer: FieldRef<Str>, errors: &mut FieldErrors) {
    let name = signer.str();
    if name.is_empty() {
        errors.push(signer.required(""));
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(signer.invalid(detail));
        return;
    };
    if domain.len() > DOMAIN_MAX {
        errors.push(signer.too_long(DOMAIN_MAX));
    }
    labels(signer, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(signer.invalid_as(domain, detail));
    }
    labels(signer, rest, names::dns1123_subdomain, errors);
    if name.len() > MAX {
        errors.push(signer.too_long(MAX));
    }
}

/// Returns true if the signer is one that Kubernetes defines.
pub(super) fn is_kubernetes(name: &str) -> bool {
    let host = name.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// Reports the first invalid label only: later ones would repeat the message.
fn labels(signer: FieldRef<Str>, segment: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    let wrong = segment.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    for (label, message) in
        errors.while_room(wrong.into_iter().flat_map(|(label, messages)| messages.into_iter().map(move |m| (label, m))))
    {
        let detail = format!("validating label {}: {message}", go_quote(label));
        errors.push(signer.invalid_as(segment, detail));
    }
}
