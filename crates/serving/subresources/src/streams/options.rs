//! The options of exec, attach and port-forward in the query.

use binnacle_client::path::encode_query;
use binnacle_fields::FieldMut;
use binnacle_fields::core::v1::{PodExecOptions, PodPortForwardOptions};
use binnacle_meta::{Status, go_quote};
use binnacle_request::Query;
use binnacle_schema::{Value, value};

/// `PodExecOptions`, `PodAttachOptions` or `PodPortForwardOptions`; fields of the other kinds are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOptions {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
    pub(crate) container: String,
    pub(crate) command: Vec<String>,
    pub(crate) ports: Vec<u16>,
}

impl StreamOptions {
    pub(super) fn of_command(query: &Query, with_command: bool) -> Self {
        Self {
            stdin: query.flag("stdin"),
            stdout: query.flag("stdout"),
            stderr: query.flag("stderr"),
            tty: query.flag("tty"),
            container: query.get("container").unwrap_or_default().to_owned(),
            command: if with_command { query.get_all("command").map(str::to_owned).collect() } else { Vec::new() },
            ports: Vec::new(),
        }
    }

    pub(super) fn of_ports(query: &Query) -> Result<Self, Status> {
        let mut ports = Vec::new();
        for text in query.get_all("ports").flat_map(|value| value.split(',')) {
            let port = text.parse::<u16>().map_err(|_| {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let why = if digits { "value out of range" } else { "invalid syntax" };
                let quoted = go_quote(text);
                Status::bad_request(format!("cannot convert to []int32: strconv.ParseUint: parsing {quoted}: {why}"))
            })?;
            ports.push(port);
        }
        Ok(Self { ports, ..Self::default() })
    }

    /// Returns the query of the request to the kubelet.
    pub(super) fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for (set, name) in [(self.stdin, "input"), (self.stdout, "output"), (self.stderr, "error"), (self.tty, "tty")] {
            if set {
                pairs.push((name, "1".to_owned()));
            }
        }
        pairs.extend(self.command.iter().map(|word| ("command", word.clone())));
        if !self.ports.is_empty() {
            let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
            pairs.push(("port", ports.join(",")));
        }
        encode(&pairs)
    }

    /// Returns the options as an object, for admission.
    pub(super) fn object(&self, kind: &str) -> Value {
        let mut object = value!({"kind": kind, "apiVersion": "v1"});
        // The options of attach have the same fields, except for the command.
        let mut options = FieldMut::<PodExecOptions>::root(&mut object);
        for (is_set, field) in [
            (self.stdin, PodExecOptions::STDIN),
            (self.stdout, PodExecOptions::STDOUT),
            (self.stderr, PodExecOptions::STDERR),
            (self.tty, PodExecOptions::TTY),
        ] {
            if is_set {
                options.set(field, true);
            }
        }
        if !self.container.is_empty() {
            options.set(PodExecOptions::CONTAINER, self.container.as_str());
        }
        if !self.command.is_empty() {
            options.set(PodExecOptions::COMMAND, Value::from(self.command.clone()));
        }
        if !self.ports.is_empty() {
            let ports: Vec<Value> = self.ports.iter().map(|port| i64::from(*port).into()).collect();
            FieldMut::root(&mut object).set(PodPortForwardOptions::PORTS, ports);
        }
        object
    }
}

/// Returns a query string including its `?`, sorted by key; empty without pairs.
pub(super) fn encode(pairs: &[(&str, String)]) -> String {
    encode_query(pairs.iter().map(|(key, value)| (*key, value.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_command_options_for_kubelet() {
        for (query, want) in [
            ("", ""),
            ("stdin=true&stdout=1&stderr&tty=false", "?error=1&input=1&output=1"),
            (
                "command=sh&command=-c&command=echo+%22a%22&tty=true",
                "?command=sh&command=-c&command=echo+%22a%22&tty=1",
            ),
            ("container=c&stdout=true", "?output=1"),
        ] {
            assert_eq!(StreamOptions::of_command(&Query::parse(query), true).query(), want, "{query}");
        }
    }

    #[test]
    fn encodes_ports_for_kubelet() {
        for (query, want) in [
            ("", Ok("")),
            ("ports=80", Ok("?port=80")),
            ("ports=80,443&ports=1", Ok("?port=80%2C443%2C1")),
            ("ports=x", Err(r#"cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax"#)),
            ("ports=", Err(r#"cannot convert to []int32: strconv.ParseUint: parsing "": invalid syntax"#)),
            (
                "ports=65536",
                Err(r#"cannot convert to []int32: strconv.ParseUint: parsing "65536": value out of range"#),
            ),
        ] {
            let got = StreamOptions::of_ports(&Query::parse(query)).map(|options| options.query());
            assert_eq!(got.as_deref().map_err(Status::message), want, "{query}");
        }
    }
}
