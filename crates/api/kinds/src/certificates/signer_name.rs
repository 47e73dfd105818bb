//! Names of signers: `example.com/signer-name`.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, go_quote};
use binnacle_validation::names;

const DOMAIN_MAX: usize = 253;
/// The longest name after the domain and the slash: a namespace, a dot and the name of a resource.
const MAX: usize = DOMAIN_MAX + 1 + 63 + 1 + 253;

/// Validates the name of a signer.
pub(super) fn validate(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    };
    if domain.len() > DOMAIN_MAX {
        errors.push(FieldError::too_long(path, DOMAIN_MAX));
    }
    labels(path, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, detail));
    }
    labels(path, rest, names::dns1123_subdomain, errors);
    if name.len() > MAX {
        errors.push(FieldError::too_long(path, MAX));
    }
}

/// Returns true if the signer is one that Kubernetes defines.
pub(super) fn is_kubernetes(name: &str) -> bool {
    let host = name.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// Reports the first invalid label only: later ones would repeat the message.
fn labels(path: &FieldPath, segment: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    let wrong = segment.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    for (label, message) in
        errors.while_room(wrong.into_iter().flat_map(|(label, messages)| messages.into_iter().map(move |m| (label, m))))
    {
        let detail = format!("validating label {}: {message}", go_quote(label));
        errors.push(FieldError::invalid(path, segment, detail));
    }
}
