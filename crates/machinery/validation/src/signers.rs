//! Names of certificate signers: `example.com/signer`.

use binnacle_meta::{FieldError, FieldErrors, Location, go_quote};

use crate::names;

const DOMAIN_MAX: usize = 253;
/// The maximum length of a label, a dot and a subdomain.
const PATH_MAX: usize = 253 + 63 + 1;

pub fn signer_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let Some((domain, own)) = name.split_once('/').filter(|(_, own)| !own.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.push(FieldError::invalid(path, name, why));
    };
    if domain.len() > DOMAIN_MAX {
        errors.push(FieldError::too_long(path, DOMAIN_MAX));
    }
    labels(path, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, why));
    }
    labels(path, own, names::dns1123_subdomain, errors);
    let max = DOMAIN_MAX + PATH_MAX + 1;
    if name.len() > max {
        errors.push(FieldError::too_long(path, max));
    }
}

/// Reports only the first invalid label, since further errors would repeat it.
fn labels(path: &dyn Location, value: &str, rule: fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    let bad = value.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    if let Some((label, messages)) = bad {
        for message in messages {
            let why = format!("validating label {}: {message}", go_quote(label));
            errors.push(FieldError::invalid(path, value, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn validates_signer_names() {
        for (name, count) in [
            ("example.com/signer", 0),
            ("kubernetes.io/kube-apiserver-client", 0),
            ("", 1),
            ("example.com", 1),
            ("a/b/c", 1),
            ("example/x", 1),
            ("example.com/Bad", 1),
        ] {
            let mut errors = FieldErrors::new();
            signer_name(&FieldPath::new("signerName"), name, &mut errors);
            assert_eq!(errors.len(), count, "{name:?} {errors:?}");
        }
    }
}
