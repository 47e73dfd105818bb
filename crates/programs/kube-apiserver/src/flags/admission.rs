//! Flags for admission: the enabled plugins, and the configuration of some of them.

use binnacle_admission::{ORDER, PluginOptions, is_default};
use binnacle_apiserver::settings::Admission;
use binnacle_meta::{aggregate, go_quote};

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

const ENABLE: &str = "enable-admission-plugins";
const DISABLE: &str = "disable-admission-plugins";
const LEGACY_ENABLE: &str = "admission-control";

pub(super) const GROUP: Group = Group {
    title: "Admission",
    flags: &[
        Flag::new(
            LEGACY_ENABLE,
            ValueKind::Value("strings"),
            "",
            "DEPRECATED: use --enable-admission-plugins and --disable-admission-plugins. Admission plugins to run, \
             comma-separated; all others are off.",
        ),
        Flag::new(
            "admission-control-config-file",
            ValueKind::Value("string"),
            "",
            "File with an AdmissionConfiguration: the configuration of admission plugins.",
        ),
        Flag::new(
            "default-not-ready-toleration-seconds",
            ValueKind::Value("int"),
            "300",
            "Seconds (tolerationSeconds) for which pods tolerate the taint node.kubernetes.io/not-ready:NoExecute, if \
             they do not set it (plugin DefaultTolerationSeconds).",
        ),
        Flag::new(
            "default-unreachable-toleration-seconds",
            ValueKind::Value("int"),
            "300",
            "Seconds (tolerationSeconds) for which pods tolerate the taint node.kubernetes.io/unreachable:NoExecute, \
             if they do not set it (plugin DefaultTolerationSeconds).",
        ),
        Flag::new(
            DISABLE,
            ValueKind::Value("strings"),
            "",
            "Admission plugins to disable although they are enabled by default, comma-separated, in any order. \
             docs/admission.md lists all plugins.",
        ),
        Flag::new(
            ENABLE,
            ValueKind::Value("strings"),
            "",
            "Admission plugins to enable in addition to those that are enabled by default, comma-separated, in any \
             order. docs/admission.md lists all plugins.",
        ),
    ],
};

impl FromFlags for Admission {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let [only, enable, disable] = [LEGACY_ENABLE, ENABLE, DISABLE].map(|flag| flags.list(flag));
        let mut wrong: Vec<String> = Vec::new();
        if flags.is_given(LEGACY_ENABLE) && (flags.is_given(ENABLE) || flags.is_given(DISABLE)) {
            let both =
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive";
            wrong.push(both.to_owned());
        }
        for (flag, names) in [(LEGACY_ENABLE, &only), (DISABLE, &disable), (ENABLE, &enable)] {
            let unknown = names.iter().filter(|name| !ORDER.contains(&name.as_str()));
            wrong.extend(unknown.map(|name| format!("{flag} plugin {} is unknown", go_quote(name))));
        }
        let mut both: Vec<&str> = enable.iter().filter(|name| disable.contains(name)).map(String::as_str).collect();
        if !both.is_empty() {
            both.sort_unstable();
            both.dedup();
            let both = both.join(" ");
            wrong.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
        }
        if !wrong.is_empty() {
            return Err(FlagError::new(aggregate(wrong)));
        }
        let has = |names: &[String], name: &str| names.iter().any(|named| named == name);
        let is_enabled = |name: &&str| {
            if flags.is_given(LEGACY_ENABLE) {
                has(&only, name)
            } else {
                has(&enable, name) || is_default(name) && !has(&disable, name)
            }
        };
        let options = PluginOptions {
            not_ready_toleration_seconds: flags.integer("default-not-ready-toleration-seconds")?,
            unreachable_toleration_seconds: flags.integer("default-unreachable-toleration-seconds")?,
            ..PluginOptions::default()
        };
        let config_file = flags.text("admission-control-config-file").map(Into::into);
        Ok(Self { options, config_file, enabled: ORDER.iter().copied().filter(is_enabled).collect() })
    }
}
