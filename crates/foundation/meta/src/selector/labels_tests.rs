//! Tests label selectors by tables of valid, invalid and matching ones.

use super::*;

const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn formats_selectors_canonically() {
    for (text, want) in [
        ("", ""),
        ("  \t\r\n", ""),
        ("x", "x"),
        ("!x", "!x"),
        ("! x", "!x"),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,  x = a , y==b", "x=a,y==b,z=c"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x=", "x="),
        ("x= ", "x="),
        ("x=,z= ", "x=,z="),
        ("x in (b,a,b)", "x in (a,b)"),
        ("x notin ( b , a )", "x notin (a,b)"),
        ("x in ()", "x in ()"),
        ("x in (,)", "x in ()"),
        ("x in (a,)", "x in (,a)"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,,b)", "x in (,a,b)"),
        ("x in (in,notin)", "x in (in,notin)"),
        ("in in (in)", "in in (in)"),
        ("in", "in"),
        ("notin=in", "notin=in"),
        ("x>1,y<7", "x>1,y<7"),
        ("x > 1", "x>1"),
        ("a.b/c,example.com/Name_1 in (x)", "a.b/c,example.com/Name_1 in (x)"),
        ("a\0", "a"),
        ("\0a", ""),
    ] {
        match LabelSelector::parse(text) {
            Ok(selector) => assert_eq!(selector.to_string(), want, "{text:?}"),
            Err(error) => panic!("{text:?}: {error}"),
        }
    }
}

#[test]
fn rejects_invalid_selectors_like_apimachinery() {
    let requirement = |rest: &str| format!("unable to parse requirement: {rest}");
    for (text, want) in [
        ("a in", requirement("found '' expected: '('")),
        ("a in b", requirement("found 'b' expected: '('")),
        ("a in (", requirement("found '', expected: ',', ')' or identifier")),
        ("a in (=", requirement("found '=', expected: ',', ')' or identifier")),
        ("a in (b", requirement("found '', expected: ',' or ')'")),
        ("a in (b c)", requirement("found 'c', expected: ',' or ')'")),
        ("a in (b,=)", requirement("found '=', expected: ',', or identifier")),
        ("a in (,", requirement("found '', expected: ',', or identifier")),
        ("a b", requirement("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("a (b)", requirement("found '(', expected: in, notin, =, ==, !=, gt, lt")),
        ("a=(", requirement("found '(', expected: identifier")),
        ("a===b", requirement("found '=', expected: identifier")),
        ("!", requirement("found '', expected: identifier")),
        ("!!a", requirement("found '!', expected: identifier")),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("a\0b", requirement("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
        ("a:b", requirement(&format!("<nil>: Invalid value: \"a:b\": name part {KEY_RULE}"))),
        ("/a", requirement("<nil>: Invalid value: \"/a\": prefix part must be non-empty")),
        (
            "a/",
            requirement(&format!("<nil>: Invalid value: \"a/\": name part must be non-empty; name part {KEY_RULE}")),
        ),
        (
            "A/b",
            requirement(
                "<nil>: Invalid value: \"A/b\": prefix part a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ),
        (
            "a/b/c",
            requirement(&format!(
                "<nil>: Invalid value: \"a/b/c\": a valid label key {KEY_RULE} with an optional DNS subdomain prefix \
                 and '/' (e.g. 'example.com/MyName')"
            )),
        ),
        ("a=b:c", requirement(&format!("values[0][a]: Invalid value: \"b:c\": {VALUE_RULE}"))),
        ("a in (b,b:c)", requirement(&format!("values[1][a]: Invalid value: \"b:c\": {VALUE_RULE}"))),
        ("a>b", requirement("values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer")),
        ("a<", requirement("values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer")),
        (
            "a>_",
            requirement(&format!(
                "[values[0]: Invalid value: \"_\": for 'Gt', 'Lt' operators, the value must be an integer, \
                 values[0][a]: Invalid value: \"_\": {VALUE_RULE}]"
            )),
        ),
        ("a>-1", requirement(&format!("values[0][a]: Invalid value: \"-1\": {VALUE_RULE}"))),
    ] {
        assert_eq!(LabelSelector::parse(text).map(|s| s.to_string()), Err(SelectorError::new(want)), "{text:?}");
    }
    let long = "x".repeat(64);
    assert_eq!(
        LabelSelector::parse(&format!("a={long}")).map_err(|e| e.to_string()),
        Err(format!(
            "unable to parse requirement: values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"
        ))
    );
    assert!(LabelSelector::parse(&"a".repeat(MAX_SELECTOR_BYTES + 1)).is_err());
}

#[test]
fn matches_labels() {
    let labels = [("app", "web"), ("n", "5"), ("empty", ""), ("word", "five")];
    for (text, want) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("!gone", true),
        ("app=web", true),
        ("app==db", false),
        ("gone=web", false),
        ("app!=db", true),
        ("app!=web", false),
        ("gone!=web", true),
        ("app in (db,web)", true),
        ("app notin (db,web)", false),
        ("gone notin (db)", true),
        ("gone in ()", false),
        ("empty=", true),
        ("gone=", false),
        ("empty in (,a)", true),
        ("n>4,n<6", true),
        ("n>5", false),
        ("word>1", false),
        ("gone<1", false),
        ("app=web,n=6", false),
    ] {
        let selector = LabelSelector::parse(text).unwrap();
        let lookup = |key: &str| labels.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        assert_eq!(selector.matches(lookup), want, "{text:?}");
    }
    assert!(!LabelSelector::nothing().matches(|_| None));
}

#[test]
fn finds_required_exact_matches() {
    let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5,e,f==6,f!=7").unwrap();
    for (key, want) in
        [("a", Some("1")), ("b", Some("2")), ("c", None), ("d", None), ("e", None), ("f", Some("6")), ("g", None)]
    {
        assert_eq!(selector.requires_exact_match(key), want, "{key}");
    }
}
