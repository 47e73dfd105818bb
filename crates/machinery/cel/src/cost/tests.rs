//! The expected costs come from kube-apiserver's tests, which do not fold constants.

use crate::library::authz::{Authorizer, Check, Decision, authorizer_type, authorizer_value};
use crate::plan::Program;
use crate::{DeclType, Environment, Estimate, Shape, Version};
use std::sync::Arc;

#[derive(Debug)]
struct Anyone;

impl Authorizer for Anyone {
    fn authorize(&self, _: &Check) -> Decision {
        Decision { allowed: true, ..Decision::default() }
    }
}

/// Returns the minimum and maximum estimate and the actual cost.
fn costs(expression: &str) -> (u64, u64, u64) {
    let env = Environment::new(Version::STORED).with_variable("authorizer", authorizer_type()).with_json_patch();
    let ast = env.compile(expression).unwrap_or_else(|errors| panic!("{expression}: {errors}"));
    let Estimate { min, max } = ast.estimate_cost();
    let program = Program::new(&ast.checked, false).expect(expression);
    let activation = env.activation().with(0, authorizer_value(Arc::new(Anyone)));
    let evaluated = program.evaluate(&activation, u64::MAX);
    assert!(evaluated.result.is_ok(), "{expression}: {:?}", evaluated.result);
    (min, max, evaluated.cost)
}

const LONG: &str = "'01234567890123456789012345678901234567890123456789'";
const SELECTOR: &str = "'spec.nodeName=example-node-name.fully.qualified.domain.name.example.com'";

/// A list of one constant is created once, not in each iteration.
#[test]
fn counts_constants_in_loops_once() {
    let env = Environment::new(Version::STORED);
    for (expression, cost) in [
        ("[1, 2].map(x, x)", 27),
        ("[1, 2].map(x, 'a')", 5),
        ("[1, 2].map(x, {'a': 1})", 5),
        ("[1, 2].transformList(i, v, 1)", 5),
        ("dyn(1.5) in [1.5, 2.5]", 0),
        ("dyn(2) in [1.5, 2.0]", 0),
    ] {
        let program = env.compile(expression).expect("the expression compiles").program().expect("it has a program");
        assert_eq!(program.evaluate(&env.activation(), u64::MAX).cost, cost, "{expression}");
    }
}

#[test]
fn estimated_and_actual_library_costs_match_kube_apiserver() {
    let cases = [
        ("[1, 2, 3, 4, 5].sum()".to_owned(), (15, 15, 15)),
        ("[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()".to_owned(), (20, 20, 20)),
        ("[1, 2, 3, 4, 5].isSorted()".to_owned(), (15, 15, 15)),
        ("[false, true, false, true, false].max()".to_owned(), (15, 15, 15)),
        ("[1, 2, 3, 4, 5].indexOf(3)".to_owned(), (15, 15, 15)),
        (format!("{LONG}.indexOf('123')"), (5, 5, 5)),
        ("url('https:://kubernetes.io/').getScheme()".to_owned(), (4, 4, 4)),
        ("ip('192.168.0.1')".to_owned(), (2, 2, 2)),
        ("ip('2001:db8:3333:4444:5555:6666:7777:8888').family()".to_owned(), (5, 5, 5)),
        ("ip('192.168.0.1') == ip('192.168.0.1')".to_owned(), (5, 5, 5)),
        ("ip.isCanonical('192.168.0.1')".to_owned(), (3, 3, 3)),
        ("cidr('192.168.0.0/16').ip()".to_owned(), (3, 3, 3)),
        ("cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/126'))".to_owned(), (7, 11, 7)),
        ("cidr('2001:db8::/32').containsCIDR('2001:db8::/126')".to_owned(), (7, 11, 7)),
        ("cidr('2001:db8::/32').containsIP(ip('2001:db8::1'))".to_owned(), (5, 8, 5)),
        ("cidr('2001:db8::/32').containsIP('2001:db8::1')".to_owned(), (5, 8, 5)),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()".to_owned(), (3, 3, 3)),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()".to_owned(), (7, 9, 9)),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')".to_owned(), (7, 11, 9)),
        ("'abc 123 def 123'.replace('', 'x')".to_owned(), (3, 3, 3)),
        ("'abc 123 def 123'.split(' ', 1)".to_owned(), (3, 3, 3)),
        ("'abc 123 def 123'.substring(5)".to_owned(), (2, 2, 2)),
        ("'abc 123 def 123'.find('123')".to_owned(), (2, 2, 2)),
        ("jsonpatch.escapeKey('abc/def~ abc/def~')".to_owned(), (2, 2, 2)),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(expression, want)| {
            let got = costs(expression);
            (got != *want).then(|| format!("{expression}: want {want:?}, got {got:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn actual_costs_match_kube_apiserver() {
    let selectors = format!("authorizer.group('').resource('pods').fieldSelector({SELECTOR})");
    let cases = [
        ("authorizer.path('/healthz')", 2),
        (&selectors, 1821),
        ("authorizer.path('/healthz').check('get').allowed()", 350_003),
        ("quantity('200M') == quantity('0.2G')", 3),
        ("quantity('50k').add(20).sub(quantity('100k')).asInteger() > 0", 6),
        ("format.named('dns1123Subdomain').value().validate('my-name')", 17),
        ("format.named('dns1123Label').value().validate('my-name')", 10),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", 5),
        ("sets.contains([], [])", 21),
        ("sets.contains([1, 2, 3, 4], [2, 3])", 29),
        ("sets.equivalent([1, 2, 3], [3, 2, 1])", 39),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3]])", 65),
        ("semver('1234.56789012345.67890123456789')", 4),
        ("semver('1.0.0').compareTo(semver('1.2.3'))", 3),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 41),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 40),
        ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 40),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 75),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131),
        ("[1, 2].all(i, v, v > 0)", 21),
        ("[1, 2].exists(i, v, v > 0)", 20),
        ("[1, 2].existsOne(i, v, v > 0)", 20),
        ("[1, 2].transformList(i, v, v + 1)", 49),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(expression, want)| {
            let got = costs(expression).2;
            (got != *want).then(|| format!("{expression}: want {want}, got {got}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn estimates_use_declared_sizes() {
    let bounded = |ty: DeclType, max| DeclType { max_elements: Some(max), ..ty };
    let text = || bounded(DeclType::new(Shape::String), 100);
    let data = DeclType::object("x.Data", [("text", text()), ("list", bounded(DeclType::list(text()), 10))]);
    let env = Environment::new(Version::STORED).with_data("self", &data);
    for (expression, min, max) in [
        ("self.text == 'abc'", 3, 3),
        ("self.text.startsWith('abc')", 3, 3),
        // The string and the list, then an iteration with a comparison for each of ten elements.
        ("self.list.all(x, x == 'a')", 3, 53),
        ("has(self.text)", 1, 1),
        ("self.text + self.text == ''", 4, 24),
    ] {
        let estimate = env.compile(expression).expect(expression).estimate_cost();
        assert_eq!((estimate.min, estimate.max), (min, max), "{expression}");
    }
}
