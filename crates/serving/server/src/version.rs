//! `/version`: the Kubernetes version of this server.

use std::borrow::Cow;

use binnacle_features::{Gates, Version};
use binnacle_meta::{Status, accept_names, content_type_names};
use binnacle_request::{BoxFuture, Handler, Preferences, Request, RequestInfo, Response};
use http::Method;

use crate::FailureWriter;
use crate::response::raw_json;

/// The Kubernetes release whose API this server implements. Clients compare it with their own version and with feature
/// tables.
pub const KUBERNETES_VERSION: &str = "v1.36.2";
pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "36";
/// The compiler, which is `gc` or `gccgo` in Go.
pub(crate) const COMPILER: &str = "rustc";
/// The toolchain of the build, instead of the Go version.
pub(crate) const TOOLCHAIN: &str = concat!("rust", env!("BINNACLE_RUSTC_VERSION"));

pub(crate) fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("{}/{arch}", std::env::consts::OS)
}

/// The only media type of the document.
const PRODUCED: [&str; 1] = ["application/json"];

/// Build information.
#[derive(Clone, Debug)]
pub struct Build {
    /// The reported release: [`KUBERNETES_VERSION`], with the suffix of a distributor.
    pub git_version: Cow<'static, str>,
    /// The commit of the source.
    pub git_commit: &'static str,
    /// `clean`, or `dirty` if files were changed after the commit.
    pub git_tree_state: &'static str,
    /// The build date, if known.
    pub date: Option<&'static str>,
}

impl Default for Build {
    fn default() -> Self {
        Self { git_version: KUBERNETES_VERSION.into(), git_commit: "", git_tree_state: "", date: None }
    }
}

impl Build {
    /// Returns kube-apiserver's output for `--version=raw`.
    #[must_use]
    pub fn raw(&self) -> String {
        let fields = self.fields(None).map(|(key, value)| {
            let (first, rest) = key.split_at(1);
            format!("{}{rest}:{value:?}", first.to_ascii_uppercase())
        });
        format!("version.Info{{{}}}", fields.join(", "))
    }

    /// Returns the fields in kube-apiserver's order. `versions` are the emulated version and the minimum compatible
    /// one.
    fn fields(&self, versions: Option<[Version; 2]>) -> [(&'static str, String); 13] {
        let part =
            |n: usize, part: fn(&Version) -> String| versions.map_or(String::new(), |versions| part(&versions[n]));
        let (major, minor) =
            (|version: &Version| version.major.to_string(), |version: &Version| version.minor.to_string());
        [
            ("major", MAJOR.to_owned()),
            ("minor", MINOR.to_owned()),
            ("emulationMajor", part(0, major)),
            ("emulationMinor", part(0, minor)),
            ("minCompatibilityMajor", part(1, major)),
            ("minCompatibilityMinor", part(1, minor)),
            ("gitVersion", self.git_version.to_string()),
            ("gitCommit", self.git_commit.to_owned()),
            ("gitTreeState", self.git_tree_state.to_owned()),
            ("buildDate", self.date.unwrap_or("1970-01-01T00:00:00Z").to_owned()),
            ("goVersion", TOOLCHAIN.to_owned()),
            ("compiler", COMPILER.to_owned()),
            ("platform", platform()),
        ]
    }
}

/// Serves the version document.
pub struct VersionHandler {
    failure: FailureWriter,
    build: Build,
    emulated: Version,
    compatible: Version,
}

impl VersionHandler {
    /// Returns the handler of a server with the emulated version of these gates.
    pub fn new(failure: FailureWriter, build: Build, gates: &Gates) -> Self {
        Self { failure, build, emulated: gates.emulated(), compatible: gates.compatible() }
    }
}

impl Handler for VersionHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path == "/version" || info.path.starts_with("/version/")
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if request.info.path.trim_end_matches('/') != "/version" {
                return (self.failure)(&Status::path_not_found(), &Preferences::of_request(&request));
            }
            if request.method != Method::GET {
                return (self.failure)(&Status::method_not_allowed(), &Preferences::of_request(&request));
            }
            if !content_type_names(request.header("content-type").unwrap_or(""), &PRODUCED) {
                let failure = Status::router_unsupported_media_type();
                return (self.failure)(&failure, &Preferences::of_request(&request));
            }
            if !accept_names(request.header("accept").unwrap_or(""), &PRODUCED) {
                return (self.failure)(&Status::router_not_acceptable(&PRODUCED), &Preferences::of_request(&request));
            }
            document(&self.build, self.emulated, self.compatible)
        })
    }

    fn paths(&self) -> Vec<String> {
        vec!["/version".to_owned()]
    }
}

/// Returns the document with the keys in kube-apiserver's order, written by hand because a map would sort them.
fn document(build: &Build, emulated: Version, compatible: Version) -> Response {
    let fields = build.fields(Some([emulated, compatible]));
    let lines: Vec<String> =
        fields.iter().map(|(key, value)| format!("  \"{key}\": {}", serde_json::Value::from(value.as_str()))).collect();
    let mut response = raw_json(&serde_json::Value::Null);
    *response.body_mut() = format!("{{\n{}\n}}", lines.join(",\n")).into();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_raw_version_like_go() {
        let raw = Build { git_commit: "abc", git_tree_state: "clean", ..Build::default() }.raw();
        let begin = "version.Info{Major:\"1\", Minor:\"36\", EmulationMajor:\"\", EmulationMinor:\"\", \
                     MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", GitVersion:\"v1.36.2\", GitCommit:\"abc\", \
                     GitTreeState:\"clean\", BuildDate:\"1970-01-01T00:00:00Z\", GoVersion:\"rust";
        assert!(raw.starts_with(begin) && raw.ends_with("\"}"), "{raw}");
    }
}
