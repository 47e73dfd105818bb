//! Combinations of flags that kube-apiserver rejects.

use super::*;

#[test]
fn rejects_conflicting_flags() {
    for (arguments, want) in [
        (
            &["--bind-address=192.0.2.1", "--service-cluster-ip-range=fd00::/112"][..],
            "service IP family \"fd00::/112\" must match public address family \"192.0.2.1\"",
        ),
        (
            &["--emulated-version=1.33", "--service-cluster-ip-range=10.0.0.0/11"],
            "specified --service-cluster-ip-range is too large; for 32-bit addresses, the mask must be >= 12",
        ),
        (
            &["--emulated-version=1.33", "--service-cluster-ip-range=10.0.0.0/12,fd00::/107"],
            "specified --service-cluster-ip-range[1] is too large; for 128-bit addresses, the mask must be >= 108",
        ),
        (
            &["--runtime-config=api/all=false,v1=true"],
            "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true",
        ),
        (
            &["--runtime-config=api/ga=false,api/all=true"],
            "--runtime-config=api/ga=false conflicts with --enable-priority-and-fairness=true",
        ),
        (
            &["--runtime-config=flowcontrol.apiserver.k8s.io/v1=false"],
            "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with --enable-priority-and-fairness=true",
        ),
        (&["--requestheader-allowed-names=a, "], "empty value in \"requestheader-allowed-names\""),
        (&["--requestheader-uid-headers=X-Remote-Uid,"], "empty value in \"requestheader-uid-headers\""),
        (
            &["--requestheader-uid-headers=X-Uid"],
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will \
             not work",
        ),
        (
            &["--requestheader-uid-headers=X-Remote-Uid", "--feature-gates=RemoteRequestHeaderUID=false"],
            "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled",
        ),
        (
            &["--service-account-signing-endpoint=@a", "--emulated-version=1.33"],
            "setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner feature gate",
        ),
        (
            &[
                "--authentication-config=a",
                "--emulated-version=1.33",
                "--feature-gates=StructuredAuthenticationConfiguration=false",
            ],
            "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file",
        ),
        (&["--compare-rate=0.5"], "--compare-rate requires --compare-with"),
        (&["--compare-with=https://a"], "--compare-with requires --compare-kubeconfig"),
        (
            &["--compare-with=http://a", "--compare-kubeconfig=k"],
            "--compare-with must be a URL that begins with https://",
        ),
        (
            &["--compare-with=https://a", "--compare-kubeconfig=k", "--compare-rate=1.5"],
            "--compare-rate must be above 0 and at most 1",
        ),
    ] {
        match run(arguments) {
            Err(error) => assert_eq!(error, want, "{arguments:?}"),
            Ok(_) => panic!("{arguments:?} was accepted"),
        }
    }
}

#[test]
fn accepts_disabled_api_groups() {
    for arguments in [
        &["--runtime-config=api/all=false,flowcontrol.apiserver.k8s.io/v1=true"][..],
        &["--runtime-config=api/all=false,api/ga=true"],
        &["--runtime-config=api/all=false,v1=true", "--enable-priority-and-fairness=false"],
    ] {
        config(arguments);
    }
}
