//! ConfigMap and Secret.

use binnacle_schema::{Object, Value};

use crate::columns::{Columns, cells, definitions, doc, string};
use crate::metadata::{AGE, NAME, created, name};

definitions!("io.k8s.api.core.v1": CONFIG_MAP_KIND = "ConfigMap", SECRET_KIND = "Secret");

pub(crate) const CONFIG_MAP: Columns =
    Columns::new(&[NAME, string("Data", doc(CONFIG_MAP_KIND, "data")), AGE], |object, now| {
        let entries = members(object, "data") + members(object, "binaryData");
        cells![name(object), entries, created(object, now)]
    });

pub(crate) const SECRET: Columns = Columns::new(
    &[NAME, string("Type", doc(SECRET_KIND, "type")), string("Data", doc(SECRET_KIND, "data")), AGE],
    |object, now| cells![name(object), object.str_at(&["type"]), members(object, "data"), created(object, now)],
);

fn members(object: &Value, map: &str) -> i64 {
    object.object_at(&[map]).map_or(0, Object::len) as i64
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn config_maps() {
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
    fn secrets() {
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
