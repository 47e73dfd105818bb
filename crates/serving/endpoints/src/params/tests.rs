//! Tests of query parameters. The expected errors are those of kube-apiserver.

use super::*;

/// Returns the options of a list or watch of config maps in a namespace: the version, and what else is not the
/// default; or the message of the error.
fn listed(query: &str) -> String {
    let served = binnacle_builtin::served(binnacle_builtin::Releases::default(), |_, _| true);
    let resource = served.find("", "v1", "configmaps").unwrap();
    let (path, query) = ("/api/v1/namespaces/n/configmaps", Query::parse(query));
    let info = RequestInfo::parse(&http::Method::GET, path, &query, path).unwrap();
    let params = match collection(&query, &info, resource, &Features::default(), false) {
        Ok(params) => params,
        Err(status) => return status.message().to_owned(),
    };
    let (list, watch) = (&params.list, params.watch);
    let version = if watch { params.resource_version.clone() } else { format!("{:?}", list.version) };
    let flag = |is_set: bool, name: &str| if is_set { format!(" {name}") } else { String::new() };
    let number = |name: &str, number: Option<i64>| number.map_or(String::new(), |number| format!(" {name}={number}"));
    [
        version,
        flag(watch, "watch"),
        flag(params.allow_bookmarks, "bookmarks"),
        params.send_initial_events.map_or(String::new(), |send| format!(" initial={send}")),
        number("limit", Some(list.limit as i64).filter(|limit| *limit != 0)),
        number("timeout", params.timeout_seconds),
    ]
    .concat()
}

#[test]
fn parses_options_of_lists_and_watches() {
    for (query, want) in [
        ("", "Consistent"),
        ("limit=5&resourceVersion=7", "Exact(7) limit=5"),
        // A negative limit is none.
        ("limit=-5", "Consistent"),
        ("limit=5&continue=x", "Consistent limit=5"),
        ("timeoutSeconds=-1", "Consistent timeout=-1"),
        // A flag is true unless it is `false` or `0`.
        ("watch&resourceVersion=7", "7 watch"),
        ("watch=&resourceVersion=7", "7 watch"),
        ("watch=yes&resourceVersion=7", "7 watch"),
        ("watch=False&resourceVersion=7", "NotOlderThan(7)"),
        ("watch=0", "Consistent"),
        ("watch=1&resourceVersion=7&allowWatchBookmarks=true", "7 watch bookmarks"),
        // Watches from no version start with the current objects.
        ("watch=1", " watch initial=true"),
        ("watch=1&resourceVersion=0", "0 watch initial=true"),
        ("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", " watch initial=false"),
    ] {
        assert_eq!(listed(query), want, "{query}");
    }
}

#[test]
fn rejects_invalid_options_of_lists_and_watches() {
    let invalid = |errors: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {errors}");
    let forbidden = |why: &str| format!("resourceVersionMatch: Forbidden: {why}");
    let with_token = forbidden("resourceVersionMatch is forbidden when continue is provided");
    let unsupported = |value: &str, supported: &str| {
        format!("resourceVersionMatch: Unsupported value: {value:?}: supported values: {supported}")
    };
    let not_older = forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    for (query, want) in [
        (
            "resourceVersionMatch=Exact",
            invalid(&forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")),
        ),
        ("resourceVersionMatch=Exact&resourceVersion=5&continue=x", invalid(&with_token)),
        (
            "resourceVersionMatch=exact&resourceVersion=5",
            invalid(&unsupported("exact", "\"Exact\", \"NotOlderThan\", \"\"")),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            invalid(&forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
        ),
        ("sendInitialEvents=true", invalid("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list")),
        ("watch=1&sendInitialEvents=true", invalid(&not_older)),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            invalid(&format!("[{not_older}, {}]", unsupported("Exact", "\"NotOlderThan\""))),
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5",
            invalid(&forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")),
        ),
        ("watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&continue=x", invalid(&with_token)),
        ("limit=", "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
        ("limit=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax".to_owned()),
        (
            "timeoutSeconds=9223372036854775808",
            "strconv.ParseInt: parsing \"9223372036854775808\": value out of range".to_owned(),
        ),
        (
            "resourceVersion=x",
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid \
             syntax"
                .to_owned(),
        ),
        (
            "fieldSelector=a%3Db",
            "\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"".to_owned(),
        ),
    ] {
        assert_eq!(listed(query), want, "{query}");
    }
}

/// Checks the options of a write: the dry run, the validation and the forced apply, or the message of the error.
fn check_write(kind: WriteKind, query: &str, want: &str) {
    let got = match write(&Query::parse(query), kind) {
        Ok(params) => format!("{} {:?} {:?}", params.dry_run, params.validation, params.force),
        Err(status) => status.message().to_owned(),
    };
    assert_eq!(got, want, "{kind:?} {query}");
}

#[test]
fn parses_options_of_writes() {
    check_write(WriteKind::Create, "", "false Warn None");
    check_write(WriteKind::Create, "dryRun=All&fieldValidation=Strict", "true Strict None");
    check_write(WriteKind::Update, "fieldValidation=Ignore&force=true", "false Ignore Some(true)");
    check_write(WriteKind::Apply, "fieldManager=m&force=false", "false Warn Some(false)");
    check_write(WriteKind::Apply, "fieldManager=m&force", "false Warn Some(true)");
    let long = "x".repeat(129);
    for (kind, query, want) in [
        (
            WriteKind::Apply,
            "",
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            WriteKind::Patch,
            "force=false",
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
        (
            WriteKind::Create,
            &format!("fieldManager={long}"),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            WriteKind::Update,
            "fieldManager=a%0Ab",
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at \
             position 1)",
        ),
        (
            WriteKind::Create,
            "fieldValidation=strict",
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"strict\": supported values: \"\", \
             \"Ignore\", \"Strict\", \"Warn\"",
        ),
    ] {
        check_write(kind, query, want);
    }
    // An empty value must not turn a dry run into a write.
    for query in ["dryRun=", "dryRun=all", "dryRun=All&dryRun=None"] {
        let status = write(&Query::parse(query), WriteKind::Create).expect_err("it is invalid");
        assert!(status.message().contains("dryRun: Unsupported value: "), "{}", status.message());
    }
}

#[test]
fn parses_options_of_deletions() {
    let parse = |query: &str| delete(&Query::parse(query)).map_err(|status| status.message().to_owned());
    let options = parse("gracePeriodSeconds=0&propagationPolicy=Orphan&uid=u&resourceVersion=7&dryRun=All").unwrap();
    let shown = (options.grace_period_seconds, options.propagation_policy.as_deref(), options.dry_run.as_slice());
    assert_eq!(shown, (Some(0), Some("Orphan"), &["All".to_owned()][..]));
    let preconditions = (options.has_preconditions, options.uid.as_deref(), options.resource_version.as_deref());
    assert_eq!(preconditions, (true, Some("u"), Some("7")));
    // Empty preconditions are none, but an empty policy is an invalid one.
    let options = parse("uid=&resourceVersion=&propagationPolicy=&orphanDependents").unwrap();
    assert!(!options.has_preconditions && options.uid.is_none() && options.resource_version.is_none());
    assert_eq!((options.propagation_policy.as_deref(), options.orphan_dependents), (Some(""), Some(true)));
    let error = parse("gracePeriodSeconds=now").err();
    assert_eq!(error.as_deref(), Some("strconv.ParseInt: parsing \"now\": invalid syntax"));
}

#[test]
fn chooses_version_match_of_lists() {
    for (version, version_match, limit, single, want) in [
        ("", "", 0, false, Match::Consistent),
        ("0", "", 0, false, Match::Any),
        ("0", "NotOlderThan", 5, false, Match::Any),
        ("7", "", 0, false, Match::NotOlderThan(7)),
        ("7", "", 5, false, Match::Exact(7)),
        // A single object has no pages.
        ("7", "", 5, true, Match::Reached(7)),
        ("7", "", 0, true, Match::NotOlderThan(7)),
        ("7", "Exact", 0, true, Match::Exact(7)),
        ("7", "NotOlderThan", 5, false, Match::NotOlderThan(7)),
        ("00", "", 5, false, Match::NotOlderThan(0)),
        ("00", "Exact", 0, false, Match::Consistent),
    ] {
        let mut params = CollectionParams { resource_version: version.to_owned(), ..CollectionParams::default() };
        params.list.limit = limit;
        let got = list_version(&params, version_match, single).unwrap();
        assert_eq!(got, want, "{version} {version_match} {limit} {single}");
    }
}

#[test]
fn parses_resource_versions_like_strconv() {
    for (text, want) in [
        ("0", Ok(0)),
        ("00", Ok(0)),
        ("18446744073709551615", Ok(u64::MAX)),
        ("18446744073709551616", Err("value out of range")),
        ("+1", Err("invalid syntax")),
        ("-1", Err("invalid syntax")),
        (" 1", Err("invalid syntax")),
        ("1.5", Err("invalid syntax")),
        ("abc", Err("invalid syntax")),
    ] {
        let want = want.map_err(|why| {
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}")
        });
        assert_eq!(resource_version(text), want, "{text}");
    }
}
