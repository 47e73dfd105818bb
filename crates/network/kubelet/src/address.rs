//! The preferred address of a node.

use binnacle_schema::Value;

/// Returns the first address of the most preferred type that the node has. The error lists the known addresses.
pub fn preferred_address(node: &Value, types: &[String]) -> Result<String, String> {
    let addresses = node.list_at(&["status", "addresses"]);
    let kind = |address: &Value| address.str_at(&["type"]).to_owned();
    for wanted in types {
        if let Some(found) = addresses.iter().find(|address| kind(address) == *wanted) {
            return Ok(found.str_at(&["address"]).to_owned());
        }
    }
    let known: Vec<String> =
        addresses.iter().map(|address| format!("{{{} {}}}", kind(address), address.str_at(&["address"]))).collect();
    Err(format!("no preferred addresses found; known addresses: [{}]", known.join(" ")))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn prefers_the_first_address_type_that_the_node_has() {
        let node = value!({"status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "Hostname", "address": "n1"},
            {"type": "InternalIP", "address": "10.0.0.2"}
        ]}});
        for (node, types, want) in [
            (&node, &["Hostname", "InternalIP"][..], Ok("n1")),
            (&node, &["ExternalIP", "InternalIP"], Ok("10.0.0.1")),
            (
                &node,
                &["ExternalIP"],
                Err(
                    "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1} {Hostname n1} {InternalIP 10.0.0.2}]",
                ),
            ),
            (&value!({}), &["Hostname"], Err("no preferred addresses found; known addresses: []")),
        ] {
            let types: Vec<String> = types.iter().map(|&kind| kind.to_owned()).collect();
            assert_eq!(preferred_address(node, &types), want.map(str::to_owned).map_err(str::to_owned));
        }
    }
}
