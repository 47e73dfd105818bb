//! ConfigMap and Secret.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{ConfigMap, Secret};

use crate::columns::{Columns, cells, doc, string};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const CONFIG_MAP: Columns =
    Columns::new(&[NAME, string("Data", doc(ConfigMap::DATA)), AGE], |object, now| {
        let map = FieldRef::<ConfigMap>::root(object);
        let entries = map.at(ConfigMap::DATA).len() + map.at(ConfigMap::BINARY_DATA).len();
        cells![name(map), entries as i64, created(map, now)]
    });

pub(crate) const SECRET: Columns =
    Columns::new(&[NAME, string("Type", doc(Secret::TYPE)), string("Data", doc(Secret::DATA)), AGE], |object, now| {
        let secret = FieldRef::<Secret>::root(object);
        let entries = secret.at(Secret::DATA).len();
        cells![name(secret), secret.at(Secret::TYPE).str(), entries as i64, created(secret, now)]
    });

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_config_maps() {
        let cases = [
            (value!({}), value!(["", 0i64, "<unknown>"])),
            (
                value!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}}),
                value!(["a", 3i64, "<unknown>"]),
            ),
        ];
        check_cells("", "ConfigMap", cases);
    }

    #[test]
    fn prints_secrets() {
        let cases = [
            (value!({}), value!(["", "", 0i64, "<unknown>"])),
            (
                value!({"metadata": {"name": "a"}, "type": "Opaque", "data": {"a": "AA=="}, "stringData": {"b": "1"}}),
                value!(["a", "Opaque", 1i64, "<unknown>"]),
            ),
        ];
        check_cells("", "Secret", cases);
    }
}
