//! The discovery.k8s.io group.

use binnacle_schema::Value;

use crate::columns::{Columns, Kind, cells, doc, string};
use crate::format::{strings, with_more};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("EndpointSlice", &ENDPOINT_SLICE)];

const DEFINITION: &str = "io.k8s.api.discovery.v1.EndpointSlice";

const ENDPOINT_SLICE: Columns = Columns::new(
    &[
        NAME,
        string("AddressType", doc(DEFINITION, "addressType")),
        string("Ports", doc(DEFINITION, "ports")),
        string("Endpoints", doc(DEFINITION, "endpoints")),
        AGE,
    ],
    |object, now| {
        let addresses = object.list_at(&["endpoints"]).iter().flat_map(|endpoint| strings(endpoint, &["addresses"]));
        cells![
            name(object),
            object.str_at(&["addressType"]),
            with_more(object.list_at(&["ports"]).iter().map(port), SHOWN),
            with_more(addresses.map(str::to_owned), SHOWN),
            created(object, now),
        ]
    },
);

const SHOWN: usize = 3;

/// Formats a port's number, else its name; a port with neither stands for all ports.
fn port(port: &Value) -> String {
    match (port.int_at(&["port"]), port.at(&["name"]).and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.into(),
        (None, None) => "*".into(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn slices() {
        let cases = [
            (value!({}), value!(["", "", "<unset>", "<unset>", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "addressType": "IPv4",
                    "ports": [{"name": "http", "port": 80i64}, {"name": "named"}, {}],
                    "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3", "10.0.0.4"]}, {}],
                }),
                value!(["a", "IPv4", "80,named,*", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...", "<unknown>"]),
            ),
            (value!({"ports": [{"name": ""}]}), value!(["", "", "<unset>", "<unset>", "<unknown>"])),
        ];
        check_cells("discovery.k8s.io", "EndpointSlice", cases);
    }
}
