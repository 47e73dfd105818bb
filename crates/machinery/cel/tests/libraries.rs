//! Functions of the libraries.

mod common;

use std::sync::Arc;

use binnacle_cel::{
    Authorizer, Check, CheckTarget, Decision, Environment, ResourceCheck, Type, Val, Version, authorizer_type,
    authorizer_value, resource_check_type, resource_check_value,
};

/// Allows read-only verbs.
#[derive(Debug)]
struct Readers;

impl Authorizer for Readers {
    fn authorize(&self, check: &Check) -> Decision {
        let of = match &check.of {
            CheckTarget::Path(path) => path.clone(),
            CheckTarget::Resource(ResourceCheck {
                group,
                resource,
                subresource,
                namespace,
                name,
                label_selector,
                ..
            }) => {
                format!("{group}/{resource}/{subresource}/{namespace}/{name}/{label_selector}")
            }
        };
        let who = check.service_account.as_ref().map_or("user".to_owned(), |(ns, name)| format!("{ns}:{name}"));
        Decision { allowed: check.verb == "get", reason: format!("{who} {of}"), error: None }
    }
}

fn check(cases: &[(&str, &str)]) {
    let env = Environment::new(Version::STORED)
        .with_variable("authorizer", authorizer_type())
        .with_variable("authorizer.requestResource", resource_check_type())
        .with_variable("d", Type::Dyn)
        .with_object_construction()
        .with_json_patch();
    let resource = ResourceCheck { resource: "pods".into(), namespace: "ns".into(), ..ResourceCheck::default() };
    let activation = env
        .activation()
        .with(0, authorizer_value(Arc::new(Readers)))
        .with(1, resource_check_value(Arc::new(Readers), resource))
        .with(2, Val::from("text"));
    common::check(&env, &activation, cases);
}

#[test]
fn evaluates_string_functions() {
    check(&[
        ("'hello'.charAt(4) + 'hello'.charAt(5)", "o"),
        ("'hello'.charAt(6)", "error: index out of range: 6"),
        ("'héllo'.indexOf('l')", "2"),
        ("'hello'.indexOf('l', 3)", "3"),
        ("'hello'.indexOf('x')", "-1"),
        ("'hello'.lastIndexOf('l')", "3"),
        ("'hello hello'.lastIndexOf('hello', 5)", "0"),
        ("''.lastIndexOf('')", "0"),
        ("'aBcÉ'.lowerAscii() + 'aBcé'.upperAscii()", "abcÉABCé"),
        ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
        ("'ab'.replace('', '-')", "-a-b-"),
        ("'a,b,c'.split(',')", "[a, b, c]"),
        ("'a,b,c'.split(',', 2)", "[a, b,c]"),
        ("'abc'.split('')", "[a, b, c]"),
        ("'a,b'.split(',', 0)", "[]"),
        ("'tacocat'.substring(4) + 'tacocat'.substring(0, 4)", "cattaco"),
        ("'x'.substring(2, 1)", "error: invalid substring range. start: 2, end: 1"),
        ("'  a b '.trim()", "a b"),
        ("['a', 'b'].join('-') + ['c'].join()", "a-bc"),
        ("strings.quote('a\"b\\n')", "\"a\\\"b\\n\""),
        ("'%s %d %.2f %x %%'.format([dyn('a'), 1, 2.345, 255])", "a 1 2.35 ff %"),
        ("'%s'.format([[1, 2]])", "[1, 2]"),
        ("'%s'.format([{'b': dyn(1), 'a': 'x'}])", "{\"a\":\"x\", \"b\":1}"),
        ("'%f'.format([1234567.5])", "1,234,567.500000"),
        ("'%b %o %X'.format([dyn(5), 8, 'hi'])", "101 10 6869"),
        (
            "'%d'.format([d])",
            "error: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%d'.format(['a'])",
            "compile: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format([1, 2])", "compile: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%s %s'.format([1])", "compile: index 1 out of range"),
        (
            "'%s'.format(['%d'.format(['x'])])",
            "compile: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s %s'.format([1e21, 1234567.0])", "1e+21 1.234567e+06"),
        ("'%s %s %s'.format([double('inf'), -double('inf'), [double('inf')]])", "+Inf -Inf [\"+Inf\"]"),
        ("'%e|%f'.format([-double('inf'), -double('inf')])", "    -∞|-∞"),
        ("'%q'.format([1])", "compile: could not parse formatting clause: unrecognized formatting clause \"q\""),
    ]);
}

#[test]
fn evaluates_list_and_set_functions() {
    check(&[
        ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", "true"),
        ("[1, 2].sum() + [].sum()", "3"),
        ("[1.5, 2.0].sum()", "3.5"),
        ("[duration('1m'), duration('1s')].sum()", "61s"),
        ("[3, 1, 2].min() + [3, 1, 2].max()", "4"),
        ("[].max()", "error: max called on empty list"),
        ("[1, 2, 2].indexOf(2) + [1, 2, 2].lastIndexOf(2)", "3"),
        ("sets.contains([1, 2], [2]) && !sets.contains([1], [2])", "true"),
        ("sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1], [1, 2])", "true"),
        ("[1, 2, 3].slice(1, 2)", "[2]"),
        ("[1].slice(0, 2)", "error: cannot slice(0, 2), list is length 1"),
        ("[[1], [2, 3]].flatten()", "[1, 2, 3]"),
        ("[dyn(1), dyn([2])].flatten()", "[1, 2]"),
        ("dyn(1).flatten()", "error: no such overload: int.flatten()"),
        ("[3, 1, 2].sort()", "[1, 2, 3]"),
        ("['ccc', 'a', 'bb'].sortBy(x, x.size())", "[a, bb, ccc]"),
        ("lists.range(3).reverse()", "[2, 1, 0]"),
        ("[1, 2, 1].distinct()", "[1, 2]"),
    ]);
}

#[test]
fn evaluates_regex_and_url_functions() {
    check(&[
        ("'abc 123'.find('[0-9]+')", "123"),
        ("'abc'.find('[0-9]+')", ""),
        ("'1a2b3'.findAll('[0-9]')", "[1, 2, 3]"),
        ("'1a2b3'.findAll('[0-9]', 2)", "[1, 2]"),
        ("url('https://user@example.com:80/a%20b?k=v&k=w').getHost()", "example.com:80"),
        ("url('https://[::1]:80/').getHostname()", "::1"),
        ("url('https://example.com:80/').getPort()", "80"),
        ("url('/a/b?x=1').getEscapedPath()", "/a/b"),
        ("url('https://e.com/?k=v&k=w+x').getQuery()['k']", "[v, w x]"),
        ("isURL('https://a/b') && !isURL('a/b') && isURL('/a')", "true"),
        ("url('a b')", "error: URL parse error during conversion from string: parse \"a b\": invalid URI for request"),
        ("url('https://a/b') == url('https://a/b')", "true"),
        ("url('%s')", "error: URL parse error during conversion from string: parse \"%s\": invalid URI for request"),
        (
            "url('1a:b')",
            "error: URL parse error during conversion from string: parse \"1a:b\": invalid URI for request",
        ),
        ("d.find('[')", "program: error parsing regexp: missing closing ]: `[`"),
        ("dyn(1).find('a')", "error: no such overload"),
        ("dyn(1).find(d)", "error: no such overload: find(int, string)"),
        ("url('/a').none", "compile: unexpected failed resolution of 'kubernetes.URL'"),
    ]);
}

#[test]
fn evaluates_quantity_and_semver_functions() {
    check(&[
        ("quantity('1.5Gi').isGreaterThan(quantity('1Gi'))", "true"),
        ("quantity('1k').asInteger() + sign(quantity('500m'))", "1001"),
        ("quantity('1500m').asInteger()", "error: cannot convert value to integer"),
        ("quantity('50k').add(quantity('20k')) == quantity('70k')", "true"),
        ("quantity('50k').sub(20000).compareTo(quantity('30k'))", "0"),
        ("isQuantity('1.3Gi') && !isQuantity('20 Mi')", "true"),
        (
            "quantity('20 Mi')",
            "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("sign(quantity('-1'))", "-1"),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", "true"),
        ("semver('v01.2', true) == semver('1.2.0')", "true"),
        ("semver('1.2.3').major() + semver('1.2.3').patch()", "4"),
        ("isSemver('1.0') || isSemver('v1.0.0')", "false"),
        ("semver('1.x.0')", "error: Invalid character(s) found in minor number \"x\""),
    ]);
}

#[test]
fn evaluates_ip_and_cidr_functions() {
    check(&[
        ("ip('192.168.0.1').family() + ip('::1').family()", "10"),
        ("isIP('1.2.3') || isIP('01.2.3.4') || isIP('::ffff:1.2.3.4') || isIP('fe80::1%eth0')", "false"),
        (
            "ip('1.2.3.256')",
            "error: IP Address \"1.2.3.256\" parse error during conversion from string: ParseAddr(\"1.2.3.256\"): IPv4 field has value >255",
        ),
        ("ip.isCanonical('2001:DB8::1')", "false"),
        ("ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('8.8.8.8').isGlobalUnicast()", "true"),
        ("ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.5').isLinkLocalMulticast()", "true"),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))", "true"),
        (
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
            "true",
        ),
        ("string(cidr('10.1.2.3/8').masked()) + ' ' + string(cidr('10.1.2.3/8').ip())", "10.0.0.0/8 10.1.2.3"),
        ("cidr('::/0').prefixLength()", "0"),
        ("isCIDR('10.0.0.0/33')", "false"),
        ("cidr('10.0.0.0/8').containsIP('none')", "error: no such overload"),
        (
            "ip('%d')",
            "error: IP Address \"%d\" parse error during conversion from string: ParseAddr(\"%d\"): missing IPv6 address",
        ),
        ("ip('fe80::1%eth0')", "error: IP address \"fe80::1%eth0\" with zone value is not allowed"),
        ("type(ip('::1')) == net.IP", "true"),
        ("ip('::1').none", "compile: type 'net.IP' does not support field selection"),
    ]);
}

#[test]
fn evaluates_named_formats() {
    check(&[
        ("format.dns1123Label().validate('abc').hasValue()", "false"),
        (
            "format.named('dns1123Label').value().validate('A').value()[0].startsWith('a lowercase RFC 1123 label')",
            "true",
        ),
        ("format.named('nope').hasValue()", "false"),
        ("format.uuid().validate('x').value()", "[does not match the UUID format]"),
        ("format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()", "false"),
        ("format.date().validate('2024-02-30').value()", "[invalid date]"),
        ("format.byte().validate('aGk=').hasValue()", "false"),
    ]);
}

#[test]
fn evaluates_authorization_checks() {
    check(&[
        ("authorizer.path('/healthz').check('get').allowed()", "true"),
        ("authorizer.path('/healthz').check('post').reason()", "user /healthz"),
        ("authorizer.path(' ')", "error: path must not be empty"),
        (
            "authorizer.serviceAccount('kube-system', 'x').group('apps').resource('deployments').subresource('scale')\
             .namespace('ns').name('web').labelSelector('a=b').check('get').reason()",
            "kube-system:x apps/deployments/scale/ns/web/a=b",
        ),
        ("authorizer.serviceAccount('A', 'x')", "error: Invalid service account namespace"),
        ("authorizer.requestResource.check('get').allowed()", "true"),
        ("authorizer.requestResource.name('n').check('get').reason()", "user /pods//ns/n/"),
        ("authorizer.group('').resource('pods').check('get').errored()", "false"),
    ]);
}

#[test]
fn constructs_objects_and_json_patches() {
    check(&[
        (
            "Object{spec: Object.spec{replicas: 1 + 1, ?x: optional.none()}}",
            "Ok(Object(Object { entries: [(\"spec\", Object(Object { entries: [(\"replicas\", Int(2))], index: None }))], index: None }))",
        ),
        ("type(Object{}) == Object", "true"),
        ("JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y~z'), value: 1}.path", "/a/x~1y~0z"),
        ("JSONPatch{nope: 1}", "compile: expected type of field 'nope' is '' but provided type is 'int'"),
        ("JSONPatch{op: 1}", "compile: expected type of field 'op' is 'string' but provided type is 'int'"),
    ]);
}

#[test]
fn libraries_depend_on_the_version() {
    let compile = |minor, expression| Environment::new(Version::minor(minor)).compile(expression).is_ok();
    for (expression, since) in [
        ("quantity('1')", 28),
        ("[1][?0]", 28),
        ("1 < 1.5", 28),
        ("sets.contains([1], [1])", 29),
        ("ip('::1')", 30),
        ("format.uuid()", 31),
        ("[1].all(i, v, true)", 32),
        ("semver('1.0.0')", 33),
        ("[1].sort()", 34),
        ("[1].includes(1)", 37),
    ] {
        assert!(!compile(since - 1, expression) && compile(since, expression), "{expression}");
    }
}

/// kube-apiserver's errors contain Go type names.
#[test]
fn errors_contain_go_type_names() {
    for (value, want) in [
        ("null", "types.Null"),
        ("true", "types.Bool"),
        ("1", "types.Int"),
        ("1u", "types.Uint"),
        ("1.5", "types.Double"),
        ("'x'", "types.String"),
        ("b'x'", "types.Bytes"),
        ("duration('1s')", "types.Duration"),
        ("timestamp('2020-01-01T00:00:00Z')", "types.Timestamp"),
        ("type(1)", "*types.Type"),
        ("optional.of(1)", "*types.Optional"),
        ("optional.none()", "*types.Optional"),
        ("quantity('1')", "cel.Quantity"),
        ("quantity('1').add(quantity('1'))", "*cel.Quantity"),
        ("ip('1.2.3.4')", "cel.IP"),
        ("cidr('1.2.3.0/24')", "cel.CIDR"),
        ("url('http://a')", "cel.URL"),
        ("format.dns1123Label()", "cel.Format"),
        ("semver('1.0.0')", "cel.Semver"),
    ] {
        check(&[
            (&format!("dyn({value}).all(x, true)"), &format!("error: got '{want}', expected iterable type")),
            (&format!("dyn({value}).all(i, x, true)"), &format!("error: unsupported comprehension range type: {want}")),
        ]);
    }
}
