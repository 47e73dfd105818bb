//! Tests of the whole command line.

use std::collections::HashSet;

use binnacle_apiserver::settings::Source;
use binnacle_features::Version;
use binnacle_meta::GroupResource;
use binnacle_registry::{MediaType, UncachedResources};

use super::*;

mod refusals;

fn run(arguments: &[&str]) -> Result<Command, String> {
    parse(arguments.iter().map(OsString::from)).map_err(|failure| failure.error.to_string())
}

fn program(arguments: &[&str]) -> Config {
    match run(arguments) {
        Ok(Command::Serve(config)) => *config,
        Ok(Command::Print(text)) => panic!("{text}"),
        Ok(Command::Checked(errors)) => panic!("{errors:?}"),
        Err(error) => panic!("{error}"),
    }
}

fn config(arguments: &[&str]) -> Settings {
    program(arguments).settings
}

fn modes(config: &Settings) -> Vec<&str> {
    match &config.authorization.source {
        Source::Flags(config) => config.authorizers.iter().map(|authorizer| authorizer.name.as_str()).collect(),
        Source::File(path) => panic!("{path:?}"),
    }
}

#[test]
fn defaults_start_a_server_on_loopback() {
    let config = config(&[]);
    assert_eq!(config.serving.address().to_string(), "127.0.0.1:6443");
    assert_eq!(modes(&config), ["node", "rbac"]);
    assert_eq!(config.misc.service_cluster_ip_ranges[0].to_string(), "10.0.0.0/24");
    assert_eq!(config.misc.service_node_port_range.to_string(), "30000-32767");
    assert_eq!(config.authentication.service_accounts.issuers, ["https://kubernetes.default.svc"]);
    assert!(config.misc.allow_privileged && !config.storage.ephemeral);
    let logs = program(&[]).logs;
    assert_eq!((logs.format, logs.verbosity, logs.split), (LogFormat::Text, 0, false));
}

#[test]
fn defaults_equal_library_defaults() {
    let [read, default] = [config(&[]), Settings::default()].map(|settings| format!("{settings:#?}"));
    assert_eq!(read, default);
}

#[test]
fn accepts_all_flag_spellings_of_pflag() {
    for arguments in [
        &["--secure-port=1", "--ephemeral", "-v=4"][..],
        &["--secure-port", "1", "--ephemeral=true", "-v", "4"],
        &["--secure_port=1", "--ephemeral=T", "-v4"],
        &["--secure-port=7", "--secure_port", "1", "--ephemeral=0", "--ephemeral", "--v=4"],
    ] {
        let Config { settings, logs, .. } = program(arguments);
        assert_eq!((settings.serving.secure_port, settings.storage.ephemeral, logs.verbosity), (1, true, 4));
    }
    assert_eq!(modes(&config(&["--authorization-mode="])), ["alwaysallow"]);
    let both = config(&["--authorization-mode=AlwaysAllow", "--authorization-mode=AlwaysDeny"]);
    assert_eq!(modes(&both), ["alwaysallow", "alwaysdeny"]);
    let hook = ["--authorization-mode=Webhook,ABAC", "--authorization-webhook-config-file=a"];
    assert_eq!(modes(&config(&[&hook[..], &["--authorization-policy-file=b"]].concat())), ["default", "abac"]);
    assert_eq!(
        config(&["--service-account-issuer=a,b", "--service-account-issuer=c"]).authentication.service_accounts.issuers,
        ["a,b", "c"]
    );
    assert_eq!(config(&["--token-auth-file=", "--"]).authentication.token_auth_file, None);
}

#[test]
fn reads_storage_flags() {
    let plain = config(&[]).storage;
    assert!(plain.etcd.is_none());
    assert_eq!((plain.media_type, plain.delete_workers), (MediaType::Protobuf, 1));
    assert_eq!(plain.uncached, UncachedResources::Some(HashSet::new()));
    assert_eq!(
        [plain.event_ttl, plain.lease_reuse, plain.health_timeout, plain.ready_timeout].map(|time| time.as_secs()),
        [3600, 60, 2, 2]
    );
    let given = config(&[
        "--etcd-servers=http://a:1,http://b:1",
        "--etcd-servers=http://c:1",
        "--etcd-servers-overrides=/events#http://d:1;http://e:1,apps/deployments#http://f:1",
        "--etcd-prefix=/one/two",
        "--storage-media-type=application/json",
        "--watch-cache-sizes=pods#0,deployments.apps#0,nodes#100",
        "--delete-collection-workers=7",
        "--event-ttl=1m",
        "--etcd-healthcheck-timeout=5s",
    ])
    .storage;
    let etcd = given.etcd.expect("members were named");
    assert_eq!(etcd.servers, ["http://a:1", "http://b:1", "http://c:1"]);
    assert_eq!(etcd.overrides[&GroupResource::new("", "events")], ["http://d:1", "http://e:1"]);
    assert_eq!(etcd.overrides[&GroupResource::new("apps", "deployments")], ["http://f:1"]);
    assert_eq!(etcd.root, "/one/two/");
    assert_eq!((given.media_type, given.delete_workers), (MediaType::Json, 7));
    let uncached = [GroupResource::new("", "pods"), GroupResource::new("apps", "deployments")];
    assert_eq!(given.uncached, UncachedResources::Some(HashSet::from(uncached)));
    assert_eq!((given.event_ttl.as_secs(), given.health_timeout.as_secs()), (60, 5));
    assert_eq!(config(&["--watch-cache=false"]).storage.uncached, UncachedResources::All);
    for (prefix, root) in [("", "/"), ("/", "/"), ("x", "/x/"), ("/x/", "/x/")] {
        let prefix = format!("--etcd-prefix={prefix}");
        let etcd = config(&["--etcd-servers=a:1", &prefix]).storage.etcd.expect("members were named");
        assert_eq!(etcd.root, root);
    }
}

#[test]
fn always_allow_turns_anonymous_requests_off() {
    assert!(config(&[]).authentication.anonymous);
    assert!(!config(&["--authorization-mode=AlwaysAllow"]).authentication.anonymous);
}

#[test]
fn enables_and_disables_admission_plugins() {
    let enables = |arguments: &[&str], plugin: &str| config(arguments).admission.enables(plugin);
    let both = ["--enable-admission-plugins=AlwaysPullImages", "--disable-admission-plugins=Priority,PodSecurity"];
    for (arguments, plugin, want) in [
        (&[][..], "Priority", true),
        (&[], "AlwaysPullImages", false),
        (&both, "AlwaysPullImages", true),
        (&both, "PodSecurity", false),
        (&both, "ResourceQuota", true),
        (&["--admission-control=Priority,AlwaysDeny"], "AlwaysDeny", true),
        (&["--admission-control=Priority,AlwaysDeny"], "ResourceQuota", false),
    ] {
        assert_eq!(enables(arguments, plugin), want, "{arguments:?} {plugin}");
    }
    let options = config(&["--default-not-ready-toleration-seconds=5"]).admission.options;
    assert_eq!((options.not_ready_toleration_seconds, options.unreachable_toleration_seconds), (5, 300));
}

/// Checks the errors of command lines that kube-apiserver rejects as well.
fn check_rejected(cases: &[(&[&str], &str)]) {
    for (arguments, want) in cases {
        match run(arguments) {
            Err(error) => assert_eq!(error, *want, "{arguments:?}"),
            Ok(_) => panic!("{arguments:?} was accepted"),
        }
    }
}

#[test]
fn rejects_unknown_and_contradictory_admission_plugins() {
    check_rejected(&[
        (&["--enable-admission-plugins=Nothing"], "enable-admission-plugins plugin \"Nothing\" is unknown"),
        (
            &["--enable-admission-plugins=A,B"],
            "[enable-admission-plugins plugin \"A\" is unknown, enable-admission-plugins plugin \"B\" is unknown]",
        ),
        (&["--disable-admission-plugins=Nothing"], "disable-admission-plugins plugin \"Nothing\" is unknown"),
        (&["--admission-control=Nothing"], "admission-control plugin \"Nothing\" is unknown"),
        (
            &["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (
            &["--admission-control=Priority", "--disable-admission-plugins=Priority"],
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
        ),
    ]);
}

#[test]
fn rejects_unknown_flags_versions_and_malformed_values() {
    check_rejected(&[
        (&["--nothing"], "unknown flag: --nothing"),
        (&["--nothing=1"], "unknown flag: --nothing"),
        (&["--feature-gates=Nothing=true"], "unrecognized feature gate: Nothing"),
        (
            &["--emulated-version=1.20"],
            "[emulation version 1.20 is not between [1.33, 1.36.0], minCompatibilityVersion version 1.33 is not between \
             [1.33, 1.20]]",
        ),
        (&["--runtime-config=a.test/v1=true"], "unknown api groups a.test/v1"),
        (
            &["--version=v1.36.1"],
            "invalid argument \"v1.36.1\" for \"--version\" flag: version \"v1.36.1\" must match major/minor/patch of default \
             version \"v1.36.2\"",
        ),
        (&["--runtime-config=apps/v9=true"], "group version apps/v9 that has not been registered"),
        (&["-x"], "unknown shorthand flag: 'x' in -x"),
        (&["--secure-port"], "flag needs an argument: --secure-port"),
        (&["-v"], "flag needs an argument: 'v' in -v"),
        (&["---x"], "bad flag syntax: ---x"),
        (&["--=1"], "bad flag syntax: --=1"),
        (&["serve"], "\"kube-apiserver\" does not take any arguments, got [\"serve\"]"),
        (
            &["--secure-port=x"],
            "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (&["--secure-port=65536"], "--secure-port 65536 must be between 0 and 65535, inclusive"),
        (&["--secure-port=-1"], "--secure-port -1 must be between 0 and 65535, inclusive"),
        (
            &["--ephemeral=maybe"],
            "invalid argument \"maybe\" for \"--ephemeral\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
    ]);
}

#[test]
fn rejects_invalid_addresses_and_kubelet_options() {
    check_rejected(&[
        (
            &["--bind-address=here"],
            "invalid argument \"here\" for \"--bind-address\" flag: failed to parse IP: \"here\"",
        ),
        (
            &["--advertise-address=here"],
            "invalid argument \"here\" for \"--advertise-address\" flag: failed to parse IP: \"here\"",
        ),
        (
            &["--advertise-address=fd00::1"],
            "service IP family \"10.0.0.0/24\" must match public address family \"fd00::1\"",
        ),
        (
            &["--kubernetes-service-node-port=70000"],
            "--kubernetes-service-node-port 70000 must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP",
        ),
        (&["--kubernetes-service-node-port=80"], "kubernetes service node port range 30000-32767 doesn't contain 80"),
        (&["--endpoint-reconciler-type=some"], "Reconciler not implemented: some"),
        (&["--apiserver-count=0"], "--apiserver-count should be a positive number, but value '0' provided"),
        (
            &["--kubelet-client-key=a"],
            "--kubelet-client-certificate and --kubelet-client-key must be specified together",
        ),
        (&["--kubelet-port=70000"], "--kubelet-port 70000 must be between 0 and 65535, inclusive"),
        (
            &["--kubelet-timeout=5"],
            "invalid argument \"5\" for \"--kubelet-timeout\" flag: time: missing unit in duration \"5\"",
        ),
    ]);
}

#[test]
fn rejects_invalid_logging_and_metrics_options() {
    check_rejected(&[
        (&["-v=x"], "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid syntax"),
        (
            &["-v=2147483648"],
            "invalid argument \"2147483648\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"2147483648\": value out of range",
        ),
        (&["--vmodule=a"], "invalid argument \"a\" for \"--vmodule\" flag: \"a\" does not have the pattern=N format"),
        (
            &["--vmodule=a=x"],
            "invalid argument \"a=x\" for \"--vmodule\" flag: parsing verbosity in \"a=x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            &["--vmodule=a=1,", "--logging-format=xml", "--log-flush-frequency=-1s"],
            "[flushFrequency: Invalid value: \"-1s\": Must be greater than zero, format: Invalid value: \"xml\": Unsupported log format, vmodule: Forbidden: Only supported for text log format]",
        ),
        (
            &["--log-text-info-buffer-size=4Ki"],
            "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (&["--log-json-split-stream"], "options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (
            &["--log-text-info-buffer-size=4x"],
            "invalid argument \"4x\" for \"--log-text-info-buffer-size\" flag: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            &["--show-hidden-metrics-for-version=1.34"],
            "metrics.showHiddenMetricsForVersion: Invalid value: \"1.34\": must be omitted or have the value '1.35'; only the previous minor version is allowed",
        ),
        (
            &["--disabled-metrics=a-b,1x,"],
            "metrics.disabledMetrics: Invalid value: [\"a-b\",\"1x\",\"\"]: must be fully qualified metric names matching \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"a-b\"",
        ),
        (
            &["--allow-metric-labels=a"],
            "invalid argument \"a\" for \"--allow-metric-labels\" flag: a must be formatted as key=value",
        ),
        (
            &["--allow-metric-labels=a=b"],
            "metrics.allowListMapping: Invalid value: {\"a\":\"b\"}: must have keys with format `metricName,labelName` where metricName matches \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName matches \"[a-zA-Z_][a-zA-Z0-9_]*\"",
        ),
        (
            &["--allow-metric-labels-manifest=/nothing"],
            "metrics.allowListMappingManifest: Invalid value: \"/nothing\": failed to read allow list manifest: open /nothing: no such file or directory",
        ),
        (&["--logging-format=xml"], "format: Invalid value: \"xml\": Unsupported log format"),
    ]);
}

#[test]
fn rejects_invalid_authentication_and_tls_options() {
    check_rejected(&[
        (
            &["--oidc-client-id=a"],
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
        ),
        (
            &["--oidc-username-claim=a"],
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
        ),
        (
            &["--authentication-config=a", "--oidc-groups-prefix="],
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            &["--oidc-client-id=a", "--oidc-issuer-url=https://b", "--oidc-signing-algs=HS256"],
            "oidc: unsupported signing alg: \"HS256\"",
        ),
        (&["--tls-min-version=SSL3"], "unknown tls version \"SSL3\""),
        (&["--tls-cipher-suites=TLS_MAGIC"], "Cipher suite TLS_MAGIC not supported or doesn't exist"),
        (&["--tls-curve-preferences=29,29"], "duplicate curve preference 29"),
        (&["--tls-curve-preferences=70000"], "curve preference 70000 is out of range (must be 1-65535)"),
        (
            &["--tls-sni-cert-key="],
            "invalid argument \"\" for \"--tls-sni-cert-key\" flag: expected comma separated certificate and key file paths",
        ),
        (
            &["--tls-sni-cert-key=a"],
            "invalid argument \"a\" for \"--tls-sni-cert-key\" flag: expected comma separated certificate and key file paths",
        ),
        (
            &["--tls-sni-cert-key=a,b:"],
            "invalid argument \"a,b:\" for \"--tls-sni-cert-key\" flag: empty names list is not allowed",
        ),
    ]);
}

#[test]
fn rejects_invalid_limits_and_audit_and_service_account_options() {
    check_rejected(&[
        (&["--goaway-chance=0.03"], "--goaway-chance can not be less than 0 or greater than 0.02"),
        (&["--max-requests-inflight=-1"], "--max-requests-inflight can not be negative value"),
        (&["--request-timeout=-1s"], "--request-timeout can not be negative value"),
        (&["--strict-transport-security-directives=max-age=1,"], "empty value in strict-transport-security-directives"),
        (
            &["--audit-log-path=x", "--audit-log-mode=async"],
            "invalid audit log mode async, allowed modes are \"batch,blocking,blocking-strict\"",
        ),
        (&["--audit-log-path=x", "--audit-log-maxage=-1"], "--audit-log-maxage -1 can't be a negative number"),
        (
            &["--audit-log-path=x", "--audit-log-mode=batch", "--audit-log-batch-buffer-size=0"],
            "invalid audit batch log buffer size 0, must be a positive number",
        ),
        (
            &["--audit-log-path=x", "--audit-log-version=audit.k8s.io/v2"],
            "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]",
        ),
        (
            &["--service-account-issuer=ht!tp://%"],
            "service-account-issuer \"ht!tp://%\" contained a ':' but was not a valid URL: parse \"ht!tp://%\": first path \
             segment in URL cannot contain colon",
        ),
        (&["--service-account-issuer="], "service-account-issuer should not be an empty string"),
        (
            &["--service-account-issuer=a", "--service-account-issuer=a"],
            "service-account-issuer \"a\" is already specified",
        ),
        (
            &["--service-account-signing-key-file=a"],
            "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set",
        ),
        (
            &["--service-account-max-token-expiration=-1s"],
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
        ),
        (
            &["--default-watch-cache-size=x"],
            "invalid argument \"x\" for \"--default-watch-cache-size\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            &["--service-account-max-token-expiration=1m"],
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
        ),
        (&["--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file must be specified together"),
    ]);
}

#[test]
fn rejects_invalid_authorization_and_leadership_options() {
    check_rejected(&[
        (&["--authorization-mode=Magic"], "authorization-mode \"Magic\" is not a valid mode"),
        (
            &["--authorization-mode=", "--authorization-webhook-config-file=a"],
            "cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (&["--min-compatibility-version=1.30"], "minCompatibilityVersion version 1.30 is not between [1.33, 1.36]"),
        (
            &["--emulation-forward-compatible"],
            "ServerRunOptions.EmulationForwardCompatible cannot be set to true if the emulation version is the same as the binary version",
        ),
        (
            &["--runtime-config-emulation-forward-compatible", "--emulated-version=1.36"],
            "ServerRunOptions.RuntimeConfigEmulationForwardCompatible cannot be set to true if the emulation version is the same as the binary version",
        ),
        (
            &["--coordinated-leadership-lease-duration=1s"],
            "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
        ),
        (
            &["--coordinated-leadership-retry-period=10s"],
            "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
        ),
        (&["--livez-grace-period=-1s"], "--livez-grace-period can not be a negative value"),
        (
            &["--authorization-mode=AlwaysAllow,AlwaysAllow"],
            "authorization-mode [\"AlwaysAllow\" \"AlwaysAllow\"] has mode specified more than once",
        ),
        (&["--authorization-mode=Webhook"], "authorization-mode Webhook's authorization config file not passed"),
        (&["--authorization-mode=RBAC,ABAC"], "authorization-mode ABAC's authorization policy file not passed"),
        (&["--authorization-policy-file=a"], "cannot specify --authorization-policy-file without mode ABAC"),
        (
            &["--authorization-webhook-config-file=a"],
            "cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (
            &[
                "--authorization-mode=Webhook",
                "--authorization-webhook-config-file=a",
                "--authorization-webhook-version=v2",
            ],
            "unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\"",
        ),
        (
            &["--authorization-config=a", "--authorization-mode=RBAC"],
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are \
             defined",
        ),
    ]);
}

#[test]
fn rejects_invalid_storage_and_service_options() {
    check_rejected(&[
        (
            &["--ephemeral", "--etcd-servers=http://127.0.0.1:2379"],
            "--ephemeral and --etcd-servers cannot be given together",
        ),
        (&["--run-controllers=*,-nothing"], "--run-controllers: \"nothing\" is not in the list of known controllers"),
        (
            &["--etcd-servers=http://a:1", "--read-only", "--run-controllers=namespace"],
            "--run-controllers cannot be used with --read-only",
        ),
        (&["--read-only"], "--read-only requires --etcd-servers"),
        (&["--forward-writes-to=https://a"], "--forward-writes-to requires --read-only"),
        (
            &["--etcd-servers=a:1", "--read-only", "--forward-writes-to=https://a"],
            "--forward-writes-to requires --proxy-client-cert-file",
        ),
        (
            &[
                "--etcd-servers=a:1",
                "--read-only",
                "--forward-writes-to=https://a",
                "--proxy-client-cert-file=c",
                "--proxy-client-key-file=k",
            ],
            "--forward-writes-to requires --forward-writes-ca-file",
        ),
        (&["--etcd-cafile=a"], "--etcd-cafile needs --etcd-servers"),
        (&["--etcd-servers-overrides=/events#http://a:1"], "--etcd-servers-overrides needs --etcd-servers"),
        (
            &["--etcd-servers=a:1", "--etcd-servers-overrides=events#http://a:1"],
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated",
        ),
        (
            &["--etcd-servers=a:1", "--etcd-servers-overrides=/events#http://a:1;"],
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated",
        ),
        (
            &["--storage-backend=etcd2"],
            "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
        ),
        (
            &["--storage-media-type=text/plain"],
            "--storage-media-type \"text/plain\" invalid, allowed values: application/json, application/vnd.kubernetes.protobuf, application/yaml",
        ),
        (&["--watch-cache-sizes=pods"], "invalid value of watch cache size: pods"),
        (&["--watch-cache-sizes=pods#many"], "invalid size of watch cache size: pods#many"),
        (&["--watch-cache-sizes=pods#-1"], "watch cache size cannot be negative: pods#-1"),
        (&["--service-cluster-ip-range=10.0.0.0"], "service-cluster-ip-range[0] is not a valid cidr"),
        (&["--service-cluster-ip-range=10.0.0.0/24,x"], "service-cluster-ip-range[1] is not an ip net"),
        (
            &["--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"],
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
        ),
        (
            &["--service-node-port-range=9-8"],
            "invalid argument \"9-8\" for \"--service-node-port-range\" flag: end port cannot be less than start port: 9-8",
        ),
    ]);
}

#[test]
fn prints_help_and_version() {
    for (arguments, want) in [
        (&["--help"][..], "Usage:\n  kube-apiserver [flags]\n"),
        (&["--help"], "Binnacle: a Kubernetes API server "),
        (&["-h"], "\nSecure serving flags:\n\n      --bind-address ip "),
        (&["--help", "--version"], "Global flags:\n\n      --check-config "),
        (&["--version"], "Kubernetes v1.36.2\n"),
        (&["--version=true"], "Kubernetes v1.36.2\n"),
        (&["--version=raw"], "version.Info{Major:\"1\", Minor:\"36\", "),
        (&["--version=raw"], concat!("}\nBinnacle ", env!("CARGO_PKG_VERSION"), "\n")),
    ] {
        match run(arguments) {
            Ok(Command::Print(text)) => assert!(text.contains(want), "{text}"),
            _ => panic!("{arguments:?}"),
        }
    }
    assert!(run(&["--version=v1.2.3"]).is_err());
    match run(&["--version=v1.36.2-mine"]) {
        Ok(Command::Serve(config)) => {
            assert_eq!(config.settings.generic.reported_version.as_deref(), Some("v1.36.2-mine"));
        }
        _ => panic!("a version to report starts the server"),
    }
    assert!(matches!(run(&["--version=false"]), Ok(Command::Serve(_))));
}

/// Defaults and ranges that only the descriptions state, beside those that `defaults_equal_library_defaults` compares.
#[test]
fn descriptions_state_the_defaults_of_the_code() {
    let streams = format!("0 means the default of {}.", binnacle_transport::DEFAULT_MAX_STREAMS);
    let versions = format!("from 1.33 to {0}. If not set, {0},", Version::BINARY);
    assert!(run(&["--emulated-version=1.33"]).is_ok() && run(&["--emulated-version=1.32"]).is_err());
    let previous = format!("The only value is that version, {}.", Version::BINARY.previous());
    for (name, want) in [
        ("http2-max-streams-per-connection", streams.as_str()),
        ("emulated-version", &versions),
        ("min-compatibility-version", "from 1.33 to the emulated version."),
        ("show-hidden-metrics-for-version", &previous),
        ("etcd-healthcheck-timeout", "0 means 2s."),
        ("etcd-readycheck-timeout", "0 means 2s."),
    ] {
        let flag = GROUPS.iter().flat_map(|group| group.flags).find(|flag| flag.name == name).unwrap();
        assert!(flag.help.contains(want), "--{name}: {}", flag.help);
    }
    let storage = config(&["--etcd-healthcheck-timeout=0s", "--etcd-readycheck-timeout=0s"]).storage;
    assert_eq!([storage.health_timeout, storage.ready_timeout].map(|time| time.as_secs()), [2, 2]);
    let fragments = GROUPS.iter().flat_map(|group| group.flags).filter(|flag| !flag.help.ends_with(['.', ')']));
    assert_eq!(fragments.map(|flag| flag.name).collect::<Vec<_>>(), [""; 0], "descriptions are sentences");
}

/// The default of every flag is valid for its group: defaults are text.
#[test]
fn flag_names_are_unique_and_sorted() {
    let mut names: Vec<&str> = GROUPS.iter().flat_map(|group| group.flags).map(|flag| flag.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for group in &GROUPS {
        let names: Vec<&str> = group.flags.iter().map(|flag| flag.name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

/// kubeadm's manifests name the advertised address only.
#[test]
fn advertised_servers_listen_on_all_addresses() {
    for (arguments, want) in [
        (&[][..], "127.0.0.1"),
        (&["--advertise-address=192.0.2.1"], "0.0.0.0"),
        (&["--advertise-address=fd00::1", "--service-cluster-ip-range=fd00::/112"], "::"),
        (&["--advertise-address=127.0.0.1"], "127.0.0.1"),
        (&["--advertise-address=0.0.0.0"], "127.0.0.1"),
        (&["--advertise-address=192.0.2.1", "--bind-address=192.0.2.2"], "192.0.2.2"),
        (&["--advertise-address=192.0.2.1", "--bind-address=127.0.0.1"], "127.0.0.1"),
    ] {
        assert_eq!(config(arguments).serving.bind_address.to_string(), want, "{arguments:?}");
    }
}
