//! The discovery.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::columns::{Columns, Kind, cells, doc, string};
use crate::format::{strings, with_more};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("EndpointSlice", &ENDPOINT_SLICE)];

const ENDPOINT_SLICE: Columns = Columns::new(
    &[
        NAME,
        string("AddressType", doc(EndpointSlice::ADDRESS_TYPE)),
        string("Ports", doc(EndpointSlice::PORTS)),
        string("Endpoints", doc(EndpointSlice::ENDPOINTS)),
        AGE,
    ],
    |object, now| {
        let slice = FieldRef::<EndpointSlice>::root(object);
        let endpoints = slice.at(EndpointSlice::ENDPOINTS);
        let addresses = endpoints.items().flat_map(|endpoint| strings(endpoint.at(Endpoint::ADDRESSES)));
        cells![
            name(slice),
            slice.at(EndpointSlice::ADDRESS_TYPE).str(),
            with_more(slice.at(EndpointSlice::PORTS).items().map(port), SHOWN),
            with_more(addresses.map(str::to_owned), SHOWN),
            created(slice, now),
        ]
    },
);

const SHOWN: usize = 3;

/// Formats a port's number, else its name; a port with neither means all ports.
fn port(port: FieldRef<EndpointPort>) -> String {
    match (port.at(EndpointPort::PORT).int(), port.at(EndpointPort::NAME).get_str()) {
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
    fn prints_endpoint_slices() {
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
