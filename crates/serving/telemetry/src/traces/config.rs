//! The configuration file: `TracingConfiguration` of `apiserver.config.k8s.io`.

use std::path::Path;

use binnacle_config::{Format, text};
use binnacle_meta::{go_quote, read_error};
use binnacle_schema::{Field, Ty, Value};

const FORMAT: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    kind: "TracingConfiguration",
    scheme: "k8s.io/apiserver/pkg/server/options/tracing.go:49",
    fields: |_| vec![text("endpoint"), Field::new("samplingRatePerMillion", Ty::Int32)],
};
const MAX_PER_MILLION: i64 = 1_000_000;
/// The default address of collectors.
const DEFAULT_ENDPOINT: &str = "localhost:4317";

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingConfig {
    /// The collector's address: `host:port`, `dns:///host:port` or `unix:///path`.
    pub endpoint: String,
    /// The number of requests in a million that are sampled if the caller has not decided.
    pub per_million: u32,
}

/// Errors of the configuration file, in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to read tracing config: {0}")]
    Read(String),
    #[error("failed to validate tracing configuration: {0}")]
    Invalid(String),
}

impl TracingConfig {
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let unreadable = |why: String| {
            let quoted = go_quote(&shown);
            ConfigError::Read(format!("unable to read tracing configuration from {quoted}: {why}"))
        };
        let text = std::fs::read(path).map_err(|error| unreadable(read_error(&shown, &error)))?;
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let file = FORMAT
            .read(text)
            .map_err(|error| ConfigError::Read(format!("unable to decode tracing configuration data: {}", error.0)))?;
        let rate = file.get("samplingRatePerMillion").and_then(Value::as_i64).unwrap_or(0);
        let endpoint = file.get("endpoint").and_then(Value::as_str).map(str::to_owned);
        let mut errors = Vec::new();
        if rate < 0 {
            errors.push(format!("samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive"));
        }
        if rate > MAX_PER_MILLION {
            errors.push(format!(
                "samplingRatePerMillion: Invalid value: {rate}: sampling rate per million must be less than or equal to one \
                 million"
            ));
        }
        errors.extend(endpoint.as_deref().and_then(endpoint_error));
        match errors.as_slice() {
            [] => {}
            [one] => return Err(ConfigError::Invalid(one.clone())),
            several => return Err(ConfigError::Invalid(format!("[{}]", several.join(", ")))),
        }
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Ok(Self { endpoint, per_million: u32::try_from(rate).unwrap_or(0) })
    }
}

fn endpoint_error(endpoint: &str) -> Option<String> {
    if !endpoint.contains("//") {
        return None;
    }
    let shown = go_quote(endpoint);
    let invalid = |why: &str| Some(format!("endpoint: Invalid value: {shown}: {why}"));
    let scheme = endpoint.split("//").next().unwrap_or_default().trim_end_matches(':');
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    match scheme.to_ascii_lowercase().as_str() {
        "dns" | "unix" | "unix-abstract" => None,
        _ if !scheme.is_empty() && !is_scheme(scheme) => {
            invalid(&format!("parse {shown}: first path segment in URL cannot contain colon"))
        }
        scheme => invalid(&format!(
            "unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See \
             https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_validates_config_files() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        let good = |endpoint: &str, per_million| Ok(TracingConfig { endpoint: endpoint.to_owned(), per_million });
        let invalid = |why: &str| Err(format!("failed to validate tracing configuration: {why}"));
        let undecodable = |why: &str| {
            Err(format!("failed to read tracing config: unable to decode tracing configuration data: {why}"))
        };
        let scheme = |scheme: &str| {
            format!(
                "unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
            )
        };
        for (text, want) in [
            ("", good("localhost:4317", 0)),
            ("endpoint: collector:1\nsamplingRatePerMillion: 100", good("collector:1", 100)),
            ("endpoint: unix:///run/otlp", good("unix:///run/otlp", 0)),
            (
                "samplingRatePerMillion: -1",
                invalid("samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
            ),
            (
                "samplingRatePerMillion: 1000001\nendpoint: http://x",
                invalid(&format!(
                    "[samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million, endpoint: Invalid value: \"http://x\": {}]",
                    scheme("http")
                )),
            ),
            (
                "endpoint: \"a b://x\"",
                invalid(
                    "endpoint: Invalid value: \"a b://x\": parse \"a b://x\": first path segment in URL cannot contain colon",
                ),
            ),
            ("bogus: 1", undecodable("strict decoding error: unknown field \"bogus\"")),
        ] {
            let got = TracingConfig::parse(format!("{head}{text}").as_bytes()).map_err(|error| error.to_string());
            assert_eq!(got, want, "{text}");
        }
        assert_eq!(
            TracingConfig::load(Path::new("/none")).unwrap_err().to_string(),
            "failed to read tracing config: unable to read tracing configuration from \"/none\": open /none: no such file or directory"
        );
    }
}
