//! The rules of the kinds, one case each: a valid object, a change that makes it invalid, and the errors.
//!
//! `test_data/rules` holds the cases, one file per group:
//!
//! ```text
//! kind networking.k8s.io/v1 ingresses
//! base {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}
//!
//! create spec.ingressClassName="A_B" ; spec.rules=null
//!   spec.ingressClassName: Invalid value: "A_B": ...
//! update spec.ingressClassName="b"
//! ```
//!
//! A case without lines below it has no errors. `create` changes the base before it is created; `update` and the name
//! of a subresource change the created base. `UPDATE_EXPECT=1` writes the present errors, for review as a diff.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use binnacle_features::Features;
use binnacle_kinds::{conversion, strategy, tables};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Limits, Value, decode, defaults};
use binnacle_scheme::{ResourceDescription, Strategy, StrategyContext};
use expect_test::expect_file;
use serde_json::Value as Json;

#[test]
fn rules_report_expected_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/rules");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no cases in {}", folder.display());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        expect_file![path].assert_eq(&replay(&text));
    }
}

/// Returns the text of a file with the present errors.
fn replay(text: &str) -> String {
    let mut now = String::new();
    let mut subject: Option<RuleSubject> = None;
    let mut base = String::new();
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        writeln!(now, "{line}").unwrap();
        if let Some(rest) = line.strip_prefix("kind ") {
            subject = Some(RuleSubject::named(rest));
        } else if let Some(rest) = line.strip_prefix("base ") {
            base = rest.to_owned();
        } else if let Some((verb, changes)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
            let errors = subject.as_ref().expect("a kind comes first").run(verb, &base, changes);
            errors.iter().for_each(|error| writeln!(now, "  {}", error.to_string().replace('\n', "\\n")).unwrap());
        }
    }
    now
}

/// The kind of some cases.
struct RuleSubject(&'static ResourceDescription);

impl RuleSubject {
    fn named(text: &str) -> Self {
        let (api_version, plural) = text.split_once(' ').unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self(binnacle_resources::find(group, version, plural).unwrap_or_else(|| panic!("no resource {text}")))
    }

    fn run(&self, verb: &str, base: &str, changes: &str) -> FieldErrors {
        let strategy = self.strategy();
        // The text of free-form parts counts, including white space, so both sides are formatted the same way.
        let base = &changed(base, "-");
        if verb == "create" {
            let mut object = self.decode(&changed(base, changes));
            strategy.prepare_for_create(&self.ctx(), &mut object);
            return strategy.validate(&self.ctx(), &object);
        }
        let mut old = self.decode(base);
        strategy.prepare_for_create(&self.ctx(), &mut old);
        // The status of nodes and controllers is kept by create.
        let reported = serde_json::from_str::<Json>(base).is_ok_and(|base| base.get("status").is_some());
        if let Some(status) = self.decode(base).get("status").filter(|_| reported) {
            old.make_object().insert("status", status.clone());
        }
        let mut object = self.decode(&changed(base, changes));
        for object in [&mut old, &mut object] {
            self.complete_metadata(object);
        }
        if verb == "update" {
            strategy.prepare_for_update(&self.ctx(), &mut object, &old);
            return strategy.validate_update(&self.ctx(), &object, &old);
        }
        strategy.prepare_for_subresource(verb, &self.ctx(), &mut object, &old);
        strategy.validate_subresource(verb, &self.ctx(), &object, &old)
    }

    /// Sets the metadata that an update cannot lack, because some rules check it between other fields.
    fn complete_metadata(&self, object: &mut Value) {
        let metadata = object.make_at(&["metadata"]);
        let namespace = if self.0.namespaced { "ns" } else { "" };
        for (name, value) in [("name", "a"), ("namespace", namespace), ("resourceVersion", "1")] {
            if !value.is_empty() && metadata.get(name).is_none() {
                metadata.insert(name, value);
            }
        }
    }

    fn strategy(&self) -> &'static dyn Strategy {
        let storage = self.0.storage.as_ref().unwrap();
        strategy(&storage.group, &storage.kind)
    }

    fn ctx(&self) -> StrategyContext<'static> {
        let namespace = if self.0.namespaced { "ns" } else { "" };
        static FEATURES: LazyLock<Features> = LazyLock::new(Features::default);
        StrategyContext { now: 1_767_225_600, namespace, api_version: "", dry_run: false, features: &FEATURES }
    }

    /// Decodes an object as the registry does: with defaults, in the stored version.
    fn decode(&self, text: &str) -> Value {
        let (group, version, kind) = (&self.0.group, &self.0.version, &self.0.kind);
        let message = tables::kind(group, version, kind).unwrap();
        let mut object = decode::json(text.as_bytes(), message, &Limits::default())
            .unwrap_or_else(|error| panic!("{kind}: {error}: {text}"))
            .value;
        let metadata = object.make_at(&["metadata"]);
        metadata.entry("name", || "a".into());
        metadata.insert("uid", "u");
        metadata.insert("generation", 1i64);
        if self.0.namespaced {
            metadata.insert("namespace", "ns");
        }
        defaults::apply_constants(&mut object, message);
        self.strategy().set_defaults(version, &mut object);
        if let Some((to_stored, _)) = conversion(group, version, kind) {
            to_stored(&mut object);
        }
        object
    }
}

/// Returns a document with values assigned by `path=json`, separated by `;`; null removes.
fn changed(base: &str, changes: &str) -> String {
    let mut document: Json = serde_json::from_str(base).unwrap_or_else(|error| panic!("{error}: {base}"));
    for change in changes.split(" ; ").filter(|change| *change != "-") {
        let (path, value) = change.split_once('=').unwrap_or_else(|| panic!("no value in {change}"));
        let value: Json = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {change}"));
        let at = segments(path).iter().fold(&mut document, |at, segment| match segment.parse::<usize>() {
            Ok(index) if at.is_array() => {
                let list = at.as_array_mut().unwrap();
                while list.len() <= index {
                    list.push(Json::Null);
                }
                &mut list[index]
            }
            _ => &mut at[segment.as_str()],
        });
        *at = value;
    }
    document.to_string()
}

/// Splits paths such as `spec.ports[0].name` and `metadata.labels[a.b/c]`.
fn segments(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for part in path.split('[') {
        let rest = match part.split_once(']') {
            Some((key, rest)) => {
                segments.push(key.to_owned());
                rest
            }
            None => part,
        };
        segments.extend(rest.split('.').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    segments
}
