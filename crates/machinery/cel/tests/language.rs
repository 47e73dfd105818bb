//! Values of expressions, by the sections of the language definition.

mod common;

use binnacle_cel::{Environment, Type, Val, Version};
use binnacle_schema::{Value, value};

fn check(cases: &[(&str, &str)]) {
    let env = Environment::new(Version::STORED).with_variable("object", Type::Dyn).with_variable("n", Type::Int);
    let object = value!({"spec": {"replicas": 3i64, "name": "web", "ports": [80i64, 443i64], "ratio": 0.5f64, "null": null},
        "metadata": {"labels": {"app": "x", "a.b/c": "y"}}});
    common::check(&env, &env.activation().with(0, Val::of(&object)).with(1, Val::Int(7)), cases);
}

#[test]
fn evaluates_arithmetic() {
    check(&[
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7u + 1u", "8"),
        ("1u - 2u", "error: unsigned integer overflow"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("1.0 / 0.0", "+Inf"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("1e21", "1e+21"),
        ("0x10 + 1", "17"),
        ("--1", "1"),
        ("-n", "-7"),
        ("'a' + 'b'", "ab"),
        ("b'a' + b'b' == b'ab'", "true"),
        ("[1] + [2, 3]", "[1, 2, 3]"),
        ("1 + 'a'", "compile: found no matching overload for '_+_' applied to '(int, string)'"),
        ("1 + dyn('a')", "error: no such overload"),
        ("dyn(true) + 1", "error: no such overload: _+_"),
        ("duration('1h') + duration('30m') == duration('90m')", "true"),
    ]);
}

#[test]
fn evaluates_comparisons() {
    check(&[
        ("1 == 1.0", "compile: found no matching overload for '_==_' applied to '(int, double)'"),
        ("dyn(1) == 1.0", "true"),
        ("dyn(1u) == 1", "true"),
        ("1 < 1.5", "true"),
        ("2u > 1", "true"),
        ("-1 < 0u", "true"),
        ("'a' < 'b' && b'a' < b'b' && false < true", "true"),
        ("[1, 2] == [1, 2] && {'a': 1} == {'a': 1}", "true"),
        ("[1] == [dyn(1.0)]", "true"),
        ("dyn('1') == 1", "false"),
        ("null == null", "true"),
        ("object.spec['null'] == null", "true"),
        ("dyn(1) < 'a'", "error: no such overload"),
        ("double('NaN') == double('NaN')", "false"),
        ("double('NaN') < 1.0", "error: NaN values cannot be ordered"),
        ("1 in [1, 2]", "true"),
        ("dyn(1.0) in [1, 2]", "true"),
        ("n in [1, 2]", "false"),
        ("'a' in {'a': 1}", "true"),
        ("object.spec.replicas in [n, 3]", "true"),
    ]);
}

#[test]
fn logical_operators_absorb_errors() {
    check(&[
        ("true || 1 / 0 == 1", "true"),
        ("1 / 0 == 1 || true", "true"),
        ("false && 1 / 0 == 1", "false"),
        ("1 / 0 == 1 && false", "false"),
        ("1 / 0 == 1 && true", "error: division by zero"),
        ("1 / 0 == 1 || 1 % 0 == 1", "error: division by zero"),
        ("true ? 1 : 2", "1"),
        ("1 / 0 == 1 ? 1 : 2", "error: division by zero"),
        ("!true", "false"),
        ("!!true", "true"),
        ("dyn(1) && true", "error: no such overload"),
        ("dyn(1) || true", "true"),
        ("1 ? 2 : 3", "compile: found no matching overload for '_?_:_' applied to '(int, int, int)'"),
        ("1 && true", "compile: expected type 'bool' but found 'int'"),
    ]);
}

#[test]
fn selects_members() {
    check(&[
        ("object.spec.replicas", "3"),
        ("object.spec.nope", "error: no such key: nope"),
        ("object.spec['name']", "web"),
        ("object.spec.ports[1]", "443"),
        ("object.spec.ports[5]", "error: index out of bounds: 5"),
        ("object.spec.ports[-1]", "error: index out of bounds: -1"),
        ("object.spec.name.x", "error: no such key: x"),
        ("object.metadata.labels['a.b/c']", "y"),
        ("has(object.spec.name)", "true"),
        ("has(object.spec.nope)", "false"),
        ("has(object.nope.nope)", "error: no such key: nope"),
        ("has({'a': 1}.b)", "false"),
        ("{'a': 1}['b']", "error: no such key: b"),
        ("{1: 'x'}[dyn(1.0)]", "x"),
        ("nope", "compile: undeclared reference to 'nope' (in container '')"),
        ("n.x", "compile: type 'int' does not support field selection"),
        ("[1, 'a']", "compile: expected type 'int' but found 'string'"),
        ("[1, dyn('a')]", "compile: expected type 'int' but found 'dyn'"),
        ("size(object.spec.ports) + object.spec.name.size()", "5"),
        ("size('é€')", "2"),
        ("n()", "compile: undeclared reference to 'n' (in container '')"),
        ("'a'.nope()", "compile: undeclared reference to 'nope' (in container '')"),
        ("Object{}", "compile: undeclared reference to 'Object' (in container '')"),
    ]);
}

#[test]
fn expands_macros() {
    check(&[
        ("[1, 2, 3].all(x, x > 0)", "true"),
        ("[1, 2, 3].all(x, x > 1)", "false"),
        ("[].all(x, x > 1)", "true"),
        ("[1, 0, 2].all(x, 4 / x > 1)", "error: division by zero"),
        ("[1, 0, 9].all(x, 4 / x > 1)", "false"),
        ("[1, 0, 2].exists(x, 4 / x == 2)", "true"),
        ("[0, 0].exists(x, 4 / x == 2)", "error: division by zero"),
        ("[1, 2, 2].exists_one(x, x == 1)", "true"),
        ("[1, 2, 2].existsOne(x, x == 2)", "false"),
        ("[1, 0].exists_one(x, 1 / x == 1)", "error: division by zero"),
        ("[1, 2].map(x, x * n)", "[7, 14]"),
        ("[1, 2, 3].map(x, x > 1, x * x)", "[4, 9]"),
        ("[1, 2, 3].filter(x, x % 2 == 1)", "[1, 3]"),
        ("{'a': 1, 'b': 2}.filter(k, k == 'b')", "[b]"),
        ("{'a': 1}.all(k, k == 'a')", "true"),
        ("[[1], [2, 3]].map(x, x.map(y, y + size(x)))", "[[2], [4, 5]]"),
        ("[1, 2].map(x, [3].map(x, x))", "[[3], [3]]"),
        ("[5, 6].all(i, v, v == i + 5)", "true"),
        ("{'a': 1}.exists(k, v, v == 1 && k == 'a')", "true"),
        ("[4, 5].transformList(i, v, i * v)", "[0, 5]"),
        ("[4, 5].transformList(i, v, i > 0, v)", "[5]"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "{a: 2}"),
        ("['x', 'y'].transformMapEntry(i, v, {v: i})", "{x: 0, y: 1}"),
        ("['x', 'x'].transformMapEntry(i, v, {v: i})", "error: insert failed: key x already exists"),
        (
            "1.all(x, true)",
            "compile: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("n == 7 && dyn(1).all(x, true)", "error: got 'types.Int', expected iterable type"),
        ("[1].all(x, 'a')", "compile: expected type 'bool' but found 'string'"),
        (
            "[1].map(x, 1, 2)",
            "compile: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'",
        ),
    ]);
}

#[test]
fn evaluates_optionals() {
    check(&[
        ("object.?spec.replicas", "optional(3)"),
        ("object.spec.?nope", "optional.none()"),
        ("object.spec.?nope.deeper.still", "optional.none()"),
        ("object.spec.?nope.orValue(9)", "9"),
        ("object.spec.?replicas.orValue(1 / 0)", "3"),
        ("object.spec.ports[?0]", "optional(80)"),
        ("object.spec.ports[?9].hasValue()", "false"),
        ("optional.of(1).value()", "1"),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("optional.none().or(optional.of(2))", "optional(2)"),
        ("optional.of(3).optMap(x, x * 2)", "optional(6)"),
        ("object.?spec.optFlatMap(s, s.?name)", "optional(web)"),
        ("object.?nope.optMap(s, 1 / 0)", "optional.none()"),
        ("optional.ofNonZeroValue('')", "optional.none()"),
        ("[?object.spec.?nope, ?optional.of(dyn(1))]", "[1]"),
        ("{?'a': object.spec.?nope, 'b': dyn(1)}", "{b: 1}"),
        ("has(object.?spec.name)", "true"),
        ("[1, 2].last().value() + [1].first().value()", "3"),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]"),
    ]);
}

#[test]
fn converts_between_types() {
    check(&[
        ("int('12') + int(3.9) + int(4u)", "19"),
        ("int('x')", "program: type conversion error from 'string' to 'int'"),
        ("int(object.spec.name)", "error: type conversion error from 'string' to 'int'"),
        ("uint(-1)", "program: unsigned integer overflow"),
        ("string(1) + string(1.5) + string(true) + string(2u)", "11.5true2"),
        ("string(b'abc')", "abc"),
        ("string(b'\\xff')", "program: invalid UTF-8 in bytes, cannot convert to string"),
        ("bool('true')", "true"),
        ("double('1.5')", "1.5"),
        ("string(duration('1h1.5s'))", "3601.5s"),
        ("duration('x')", "compile: invalid duration argument"),
        ("timestamp('x')", "compile: invalid timestamp argument"),
        ("'a'.matches('(')", "compile: invalid matches argument"),
        ("string(timestamp('2024-02-29T12:00:00.5+02:00'))", "2024-02-29T12:00:00.5+02:00"),
        ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
        ("type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type", "true"),
        ("type(timestamp('2024-01-01T00:00:00Z')) == google.protobuf.Timestamp", "true"),
    ]);
}

#[test]
fn evaluates_timestamps_and_durations() {
    check(&[
        ("timestamp('2024-02-29T12:34:56.789Z').getFullYear()", "2024"),
        ("timestamp('2024-02-29T12:34:56.789Z').getMonth()", "1"),
        ("timestamp('2024-02-29T12:34:56.789Z').getDayOfMonth()", "28"),
        ("timestamp('2024-02-29T12:34:56.789Z').getDate()", "29"),
        ("timestamp('2024-02-29T12:34:56.789Z').getDayOfYear()", "59"),
        ("timestamp('2024-02-29T12:34:56.789Z').getDayOfWeek()", "4"),
        ("timestamp('2024-02-29T12:34:56.789Z').getHours('+02:30')", "15"),
        ("timestamp('2024-02-29T12:34:56.789Z').getMinutes('-00:30')", "4"),
        ("timestamp('2024-02-29T12:34:56.789Z').getMilliseconds()", "789"),
        ("duration('90m').getHours() + duration('90m').getMinutes()", "91"),
        ("timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')", "true"),
        ("timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')", "true"),
        ("timestamp('2024-01-01T00:00:00Z') < timestamp('2024-01-02T00:00:00Z')", "true"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "error: timestamp overflow"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('Nope/Nope')", "error: unknown time zone Nope/Nope"),
        ("timestamp('2024-01-01T00:00:00Z') - timestamp('0001-01-01T00:00:00Z')", "error: integer overflow"),
        ("duration('2562047h') + duration('2562047h')", "error: integer overflow"),
        ("timestamp('2024-01-01T3:04:05Z').getHours()", "3"),
        ("timestamp('2024-01-01T03:04:05+02:60') == timestamp('2024-01-01T00:04:05Z')", "true"),
        ("timestamp('9999-12-31T23:59:59Z').getFullYear('+05:00')", "10000"),
        ("timestamp('9999-12-31T23:59:59Z').getHours('Asia/Tokyo')", "8"),
        ("timestamp('0001-01-01T00:00:00Z').getFullYear('-05:00')", "0"),
        ("timestamp('2023-12-31T23:00:00Z').getDayOfYear('+02:00')", "0"),
    ]);
}

#[test]
fn evaluates_strings_and_bytes() {
    check(&[
        (r#"'\x41\u00e9\n\101'"#, "Aé\nA"),
        (r#"r'\n' == '\\n'"#, "true"),
        ("'''a'b''' + \"\"\"c\"d\"\"\"", "a'bc\"d"),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')", "true"),
        ("'abc'.matches('^a.c$') && matches('abc', 'b')", "true"),
        ("object.spec.name.matches(object.spec.name)", "true"),
        ("b'\\xff'.size()", "1"),
        ("dyn(1).startsWith('a')", "error: no such overload"),
    ]);
}

/// cel-go dispatches unsupported operators on strings, times and durations to the operand, whose error does not contain
/// the operator's name.
#[test]
fn errors_for_unsupported_operands_match_cel_go() {
    check(&[
        ("dyn('a') * dyn('b')", "error: no such overload"),
        ("dyn('a') - dyn('b')", "error: no such overload"),
        ("dyn(null) * 1", "error: no such overload: _*_"),
        ("dyn(timestamp(0)) / 5", "error: no such overload"),
        ("-dyn('a')", "error: no such overload"),
        ("-dyn(timestamp(0))", "error: no such overload"),
        ("-dyn(1u)", "error: no such overload: -_"),
        ("size(dyn(1))", "error: no such overload: size"),
        ("size(dyn(duration('1s')))", "error: no such overload"),
        ("dyn(1).matches('a')", "error: no such overload"),
        ("dyn(1).matches(object.spec.name)", "error: no such overload: matches"),
    ]);
}

#[test]
fn rejects_invalid_qualifiers() {
    check(&[
        ("object.spec[dyn(object.spec)]", "error: invalid qualifier type: map[string]interface {}"),
        ("object.spec[bytes(object.spec.name)]", "error: invalid qualifier type: types.Bytes"),
        ("has(object.?none.x)", "false"),
        ("has(object.?spec.name)", "true"),
        ("['a'].exists(n, .n == 'a')", "true"),
        ("dyn({1: 'a'})[1.0]", "a"),
        ("{1.5: 'a'}[1.5]", "a"),
    ]);
    let env = Environment::new(Version::STORED).with_variable("o", Type::Dyn);
    for (expression, kind) in [
        ("o[null]", "types.Null"),
        ("o[b'a']", "types.Bytes"),
        ("o[[1]]", "*types.baseList"),
        ("o[{'a': 1}]", "*types.baseMap"),
        ("o[duration('1s')]", "types.Duration"),
    ] {
        let error = env.program(expression).expect_err("the expression has no program");
        assert_eq!(error, format!("invalid qualifier type: {kind}"), "{expression}");
    }
}

/// Expressions can access free-form parts of objects that are stored as raw JSON.
#[test]
fn selects_members_of_raw_json() {
    let env = Environment::new(Version::STORED).with_variable("object", Type::Dyn);
    let text = r#"{ "a": [1, {"b": null}], "c": 1.5, "d": "x", "e": true, "f": "<" }"#;
    let object = Value::Object([("data", Value::Raw(text.into()))].into_iter().collect());
    let activation = env.activation().with(0, Val::of(&object));
    common::check(
        &env,
        &activation,
        &[
            ("object.data.a[0] + 1", "2"),
            ("object.data.a[1].b == null", "true"),
            ("object.data.c", "1.5"),
            ("object.data.d + 'y'", "xy"),
            ("object.data.e && object.data.f == '<'", "true"),
            ("size(object.data)", "5"),
            ("has(object.data.z)", "false"),
            ("object.data.a == [dyn(1), dyn({'b': null})]", "true"),
        ],
    );
}
