//! The admission configuration (`--admission-control-config-file`): plugin configurations, inline or in other files.

use std::path::{Path, PathBuf};

use binnacle_config::Format;
use binnacle_features::Features;
use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_fields::types::{Int, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldErrors, FieldPath, aggregate, io_error, read_error};
use binnacle_schema::{Limits, Object, Value, json, yaml};
use binnacle_webhook::Users;

use crate::config_formats::{
    Configuration, EVENTS, EventLimitConfiguration, FILE, Limit, MUTATING_POLICIES, NodeSelectorConfiguration,
    OLD_FILE, OLD_QUOTA, PluginConfiguration, PolicyConfiguration, QUOTA, SECURITY, TOLERATIONS,
    TolerationConfiguration, VALIDATING_POLICIES, WEBHOOKS, WebhookConfiguration,
};
use crate::plugins::{
    ClusterTolerations, EventLimit, EventLimitKind, ImagePolicySettings, LimitedResource, NodeSelectors, PluginOptions,
    PodSecuritySettings,
};

/// An error in the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionConfigError {
    #[error(
        "failed to read plugin config: unable to read admission control configuration from {} [{why}]",
        binnacle_meta::go_quote(path)
    )]
    File { path: String, why: String },
    #[error("couldn't open admission plugin configuration {0}")]
    PluginFile(String),
    #[error("failed to read plugin config: {0}")]
    Malformed(String),
    #[error("couldn't init admission plugin {}: {why}", binnacle_meta::go_quote(plugin))]
    Plugin { plugin: &'static str, why: String },
    #[error("failed to initialize admission plugin {}: {plugin} invalid: {why}", binnacle_meta::go_quote(plugin))]
    Invalid { plugin: &'static str, why: String },
}

/// Loads the configurations of the enabled plugins into `options`. Fails if a plugin that requires a configuration has
/// none, even without a file.
pub fn configure(
    file: Option<&Path>,
    is_enabled: &dyn Fn(&str) -> bool,
    options: &mut PluginOptions,
) -> Result<(), AdmissionConfigError> {
    let configuration = file.map(AdmissionConfiguration::read).transpose()?.unwrap_or_default();
    let of = |plugin: &'static str| if is_enabled(plugin) { configuration.of(plugin) } else { Ok(None) };
    if let Some(text) = of("PodNodeSelector")? {
        options.node_selectors = node_selectors(&text);
    }
    if let Some(text) = of("PodTolerationRestriction")? {
        options.tolerations = tolerations(&text).map_err(plugin_error("PodTolerationRestriction"))?;
    }
    if let Some(text) = of("PodSecurity")? {
        let file = SECURITY.read(&text).map_err(|error| plugin_error("PodSecurity")(error.to_string()))?;
        let invalid =
            |errors: FieldErrors| AdmissionConfigError::Invalid { plugin: "PodSecurity", why: aggregated(&errors) };
        options.pod_security = PodSecuritySettings::read(&file).map_err(invalid)?;
    }
    for (plugin, users) in [
        ("MutatingAdmissionWebhook", &mut options.mutating_webhook_users),
        ("ValidatingAdmissionWebhook", &mut options.validating_webhook_users),
    ] {
        if let Some(text) = of(plugin)? {
            let (named, manifests) = webhooks(&text, &options.features).map_err(plugin_error(plugin))?;
            *users = named;
            options.manifests.extend(manifests.map(|path| (plugin, path)));
        }
    }
    for (plugin, own, other) in [
        ("MutatingAdmissionPolicy", MUTATING_POLICIES, VALIDATING_POLICIES),
        ("ValidatingAdmissionPolicy", VALIDATING_POLICIES, MUTATING_POLICIES),
    ] {
        if let Some(text) = of(plugin)? {
            let manifests = policies(&text, &own, &other, &options.features).map_err(plugin_error(plugin))?;
            options.manifests.extend(manifests.map(|path| (plugin, path)));
        }
    }
    if let Some(text) = of("ResourceQuota")? {
        options.limited_resources = limited_resources(&text).map_err(plugin_error("ResourceQuota"))?;
    }
    if is_enabled("ImagePolicyWebhook") {
        let text = configuration.of("ImagePolicyWebhook")?;
        let settings = ImagePolicySettings::read(text.as_deref()).map_err(plugin_error("ImagePolicyWebhook"))?;
        options.image_policy = Some(settings);
    }
    if is_enabled("EventRateLimit") {
        let text = configuration.of("EventRateLimit")?;
        options.event_limits = event_limits(text.as_deref()).map_err(plugin_error("EventRateLimit"))?;
    }
    Ok(())
}

fn plugin_error(plugin: &'static str) -> impl Fn(String) -> AdmissionConfigError {
    move |why| AdmissionConfigError::Plugin { plugin, why }
}

/// The plugins of a file: name, path, and inline configuration.
#[derive(Default)]
struct AdmissionConfiguration {
    plugins: Vec<(String, Option<PathBuf>, Option<Vec<u8>>)>,
}

impl AdmissionConfiguration {
    fn read(path: &Path) -> Result<Self, AdmissionConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|error| AdmissionConfigError::File { path: shown.clone(), why: read_error(&shown, &error) })?;
        let malformed = |why: String| AdmissionConfigError::Malformed(why);
        let (tree, _) = yaml::parse(&text, &Limits::default()).map_err(|error| malformed(error.to_string()))?;
        let typed = FieldRef::<AnyKind>::root(&tree);
        let unnamed = typed.at(AnyKind::KIND).is_empty() || typed.at(AnyKind::API_VERSION).is_empty();
        if unnamed && tree.get(NodeSelectorConfiguration::SELECTORS.name()).is_some() {
            // The legacy format of PodNodeSelector: the whole file is the plugin's configuration.
            return Ok(Self { plugins: vec![("PodNodeSelector".to_owned(), None, Some(text))] });
        }
        let file = format_of(FILE, OLD_FILE, &tree).read(&text).map_err(|error| malformed(error.to_string()))?;
        let base = path.parent().unwrap_or(Path::new(""));
        let plugins = FieldRef::<Configuration>::root(&file).at(Configuration::PLUGINS).values().map(|plugin| {
            let own = plugin.at(PluginConfiguration::CONFIGURATION).get().map(|own| {
                let mut text = Vec::new();
                json::write(own, &mut text);
                text
            });
            let path = plugin.at(PluginConfiguration::PATH).str();
            let path = (!path.is_empty()).then(|| base.join(path));
            (plugin.at(PluginConfiguration::NAME).str().to_owned(), path, own)
        });
        Ok(Self { plugins: plugins.collect() })
    }

    fn of(&self, plugin: &str) -> Result<Option<Vec<u8>>, AdmissionConfigError> {
        match self.plugins.iter().find(|(name, ..)| name == plugin) {
            Some((_, _, Some(own))) => Ok(Some(own.clone())),
            Some((_, Some(path), None)) => {
                let unread = |error| AdmissionConfigError::PluginFile(read_error(&path.display().to_string(), &error));
                std::fs::read(path).map(Some).map_err(unread)
            }
            _ => Ok(None),
        }
    }
}

/// Reads the selectors of PodNodeSelector. As in kube-apiserver, invalid fields count as absent.
fn node_selectors(text: &[u8]) -> NodeSelectors {
    let tree = yaml::parse(text, &Limits::default()).map(|(tree, _)| tree).unwrap_or_default();
    let selectors =
        FieldRef::<NodeSelectorConfiguration>::root(&tree).at(NodeSelectorConfiguration::SELECTORS).object();
    let members = selectors.into_iter().flat_map(Object::iter);
    members.filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned()))).collect()
}

/// Returns `old` if the file has its group, or else `new`.
fn format_of(new: Format, old: Format, file: &Value) -> Format {
    let group = FieldRef::<AnyKind>::root(file).at(AnyKind::API_VERSION).str().split('/').next();
    if group == Some(old.group) { old } else { new }
}

/// Reads the credentials for webhooks, and the directory of static manifests.
fn webhooks(text: &[u8], features: &Features) -> Result<(Users, Option<PathBuf>), String> {
    let file = WEBHOOKS.read(text).map_err(|error| error.to_string())?;
    let file = FieldRef::<WebhookConfiguration>::root(&file);
    let kubeconfig = file.at(WebhookConfiguration::KUBE_CONFIG_FILE);
    if !kubeconfig.is_empty() && !Path::new(kubeconfig.str()).is_absolute() {
        return Err(kubeconfig.invalid("must be an absolute file path").to_string());
    }
    let manifests = manifests(file.at(WebhookConfiguration::STATIC_MANIFESTS_DIR), features)?;
    let users = match kubeconfig.str() {
        "" => Users::default(),
        path => Users::load(Path::new(path)).map_err(|error| error.to_string())?,
    };
    Ok((users, manifests))
}

/// Reads the directory of static manifests of a policy plugin.
fn policies(text: &[u8], own: &Format, other: &Format, features: &Features) -> Result<Option<PathBuf>, String> {
    let read = own.read(text);
    if read.is_err() && other.read(text).is_ok() {
        return Err(format!("unexpected type: *policyconfig.{}", other.kind));
    }
    let file = read.map_err(|error| error.to_string())?;
    manifests(FieldRef::<PolicyConfiguration>::root(&file).at(PolicyConfiguration::STATIC_MANIFESTS_DIR), features)
}

/// Returns the directory of static manifests, unless the configuration has none.
fn manifests(directory: FieldRef<Str>, features: &Features) -> Result<Option<PathBuf>, String> {
    if directory.is_empty() {
        return Ok(None);
    }
    if !features.enabled("ManifestBasedAdmissionControlConfig") {
        let why = "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        return Err(directory.forbidden(why).to_string());
    }
    let path = PathBuf::from(directory.str());
    let unread = |error| format!("unable to read: stat {}: {}", path.display(), io_error(&error));
    let problem = match path.is_absolute().then(|| std::fs::metadata(&path)) {
        None => "must be an absolute file path".to_owned(),
        Some(Err(error)) => unread(error),
        Some(Ok(found)) if !found.is_dir() => "must be a directory".to_owned(),
        Some(Ok(_)) => return Ok(Some(path)),
    };
    Err(directory.invalid(problem).to_string())
}

fn limited_resources(text: &[u8]) -> Result<Vec<LimitedResource>, String> {
    let (tree, _) = yaml::parse(text, &Limits::default()).map_err(|error| error.to_string())?;
    let file = format_of(QUOTA, OLD_QUOTA, &tree).read(text).map_err(|error| error.to_string())?;
    LimitedResource::read(&file).map_err(|errors| aggregated(&errors))
}

fn tolerations(text: &[u8]) -> Result<ClusterTolerations, String> {
    let file = TOLERATIONS.read_leniently(text).map_err(|error| error.to_string())?;
    // As in kube-apiserver, paths begin with the name of the plugin.
    let path = FieldPath::new("podtolerationrestriction");
    let file = FieldRef::<TolerationConfiguration>::located(&file, &path);
    let (default, whitelist) = (file.at(TolerationConfiguration::DEFAULT), file.at(TolerationConfiguration::WHITELIST));
    let mut errors = FieldErrors::new();
    for list in [default, whitelist] {
        binnacle_validation::tolerations::validate(list.items(), false, &mut errors);
    }
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(format!("invalid config: [{}]", errors.join(" ")));
    }
    Ok(ClusterTolerations { default: default.list().to_vec(), whitelist: whitelist.list().to_vec() })
}

fn event_limits(text: Option<&[u8]>) -> Result<Vec<EventLimit>, String> {
    let file = match text {
        Some(text) => EVENTS.read_leniently(text).map_err(|error| error.to_string())?,
        None => Value::Null,
    };
    let mut errors = FieldErrors::new();
    let file = FieldRef::<EventLimitConfiguration>::root(&file);
    let limits = file.at(EventLimitConfiguration::LIMITS);
    if limits.is_empty() {
        errors.push(limits.invalid("must not be empty"));
    }
    let limits = limits.items().filter_map(|limit| event_limit(limit, &mut errors)).collect();
    if errors.is_empty() { Ok(limits) } else { Err(aggregated(&errors)) }
}

fn event_limit(limit: FieldRef<Limit>, errors: &mut FieldErrors) -> Option<EventLimit> {
    let kind = limit.at(Limit::TYPE);
    let known = EventLimitKind::ALL.into_iter().find(|known| known.as_str() == kind.str());
    if known.is_none() {
        errors.push(kind.not_supported(&EventLimitKind::ALL.map(EventLimitKind::as_str)));
    }
    let mut positive = |field: Field<Limit, Int>| {
        let number = limit.at(field);
        if number.int_or_zero() <= 0 {
            errors.push(number.invalid("must be positive"));
        }
        u32::try_from(number.int_or_zero()).unwrap_or(0)
    };
    let (burst, qps) = (positive(Limit::BURST), positive(Limit::QPS));
    let cache_size = limit.at(Limit::CACHE_SIZE);
    if cache_size.int_or_zero() < 0 && known != Some(EventLimitKind::Server) {
        errors.push(cache_size.invalid("must not be negative"));
    }
    Some(EventLimit { kind: known?, qps, burst, cache_size: usize::try_from(cache_size.int_or_zero()).unwrap_or(0) })
}

fn aggregated(errors: &FieldErrors) -> String {
    aggregate(errors.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn configured(name: &str, text: &str, plugin: &str, extra: Option<&str>) -> Result<PluginOptions, String> {
        let directory = std::env::temp_dir().join(format!("binnacle-admission-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("admission.yaml");
        fs::write(&file, text).expect("a file");
        if let Some(extra) = extra {
            fs::write(directory.join("extra.yaml"), extra).expect("a file");
        }
        let mut options = PluginOptions::default();
        let outcome = configure(Some(&file), &|name| name == plugin, &mut options);
        let shown = directory.display().to_string();
        fs::remove_dir_all(&directory).expect("it was made");
        outcome.map(|()| options).map_err(|error| error.to_string().replace(&shown, "DIR"))
    }

    fn file(plugin: &str, configuration: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: {plugin}\n  \
             configuration: {configuration}\n"
        )
    }

    #[test]
    fn reads_configurations_of_plugins() {
        let events = "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [\
                      {type: Namespace, qps: 5, burst: 10, cacheSize: 3}, {type: Server, qps: 1, burst: 1}]}";
        let options =
            configured("events", &file("EventRateLimit", events), "EventRateLimit", None).expect("it is valid");
        let want = EventLimit { kind: EventLimitKind::Namespace, qps: 5, burst: 10, cache_size: 3 };
        assert_eq!((options.event_limits.len(), &options.event_limits[0]), (2, &want));

        let path = "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: extra.yaml}]\n";
        let extra = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\nexemptions: {namespaces: [a]}\n";
        let options = configured("path", path, "PodSecurity", Some(extra)).expect("it is valid");
        assert_ne!(options.pod_security, PodSecuritySettings::default());
        let options = configured("not-asked", path, "Priority", None).expect("nobody reads the other file");
        assert_eq!(options.pod_security, PodSecuritySettings::default());

        let tolerations = "{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, \
                           default: [{key: a, operator: Exists}]}";
        let plugin = "PodTolerationRestriction";
        let options = configured("tolerations", &file(plugin, tolerations), plugin, None).expect("it is valid");
        assert_eq!(options.tolerations.default[0].str_at(&["key"]), "a");

        for head in [
            "apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration",
            "resourcequota.admission.k8s.io/v1beta1, kind: Configuration",
            "resourcequota.admission.k8s.io/v1alpha1, kind: Configuration",
        ] {
            let quota = format!("{{apiVersion: {head}, limitedResources: [{{resource: pods, matchContains: [cpu]}}]}}");
            let options = configured("quota", &file("ResourceQuota", &quota), "ResourceQuota", None);
            assert_eq!(options.expect("it is valid").limited_resources.len(), 1);
        }

        let old = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: env=x\n  ns: env=y\n";
        let options = configured("selectors", old, "PodNodeSelector", None).expect("it is valid");
        assert_eq!(options.node_selectors["ns"], "env=y");
    }

    #[test]
    fn rejects_invalid_configurations_with_messages_of_kube_apiserver() {
        let events = |limits: &str| {
            let text = format!(
                "{{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: {limits}}}"
            );
            file("EventRateLimit", &text)
        };
        let prefix = "couldn't init admission plugin \"EventRateLimit\": ";
        for (name, text, plugin, want) in [
            ("empty", file("Other", "{}"), "EventRateLimit", format!("{prefix}limits: Invalid value: null: must not be empty")),
            (
                "limits",
                events("[{type: Some, qps: 0, burst: 1}]"),
                "EventRateLimit",
                format!("{prefix}[limits[0].type: Unsupported value: \"Some\": supported values: \"Namespace\", \"Server\", \"SourceAndObject\", \"User\", limits[0].qps: Invalid value: 0: must be positive]"),
            ),
            (
                "strict",
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugin: []\n".to_owned(),
                "PodSecurity",
                "failed to read plugin config: strict decoding error: unknown field \"plugin\"".to_owned(),
            ),
            (
                "file",
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: absent}]\n".to_owned(),
                "PodSecurity",
                "couldn't open admission plugin configuration open DIR/absent: no such file or directory".to_owned(),
            ),
            (
                "quota",
                file("ResourceQuota", "{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{apiGroup: a}]}"),
                "ResourceQuota",
                "couldn't init admission plugin \"ResourceQuota\": limitedResources[0].resource: Required value".to_owned(),
            ),
            (
                "quota-kind",
                file("ResourceQuota", "{apiVersion: resourcequota.admission.k8s.io/v1, kind: Configuration}"),
                "ResourceQuota",
                "couldn't init admission plugin \"ResourceQuota\": no kind \"Configuration\" is registered for version \"resourcequota.admission.k8s.io/v1\" in scheme \"pkg/admission/plugin/resourcequota/config.go:31\"".to_owned(),
            ),
            (
                "no-limits",
                file("EventRateLimit", "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [], unknown: 1}"),
                "EventRateLimit",
                format!("{prefix}limits: Invalid value: []: must not be empty"),
            ),
            (
                "tolerations",
                file("PodTolerationRestriction", "{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, whitelist: [{key: a, operator: Exists, value: v}], unknown: 1}"),
                "PodTolerationRestriction",
                "couldn't init admission plugin \"PodTolerationRestriction\": invalid config: [podtolerationrestriction.whitelist[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists']".to_owned(),
            ),
            (
                "webhooks",
                file("ValidatingAdmissionWebhook", "{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: relative}"),
                "ValidatingAdmissionWebhook",
                "couldn't init admission plugin \"ValidatingAdmissionWebhook\": kubeConfigFile: Invalid value: \"relative\": must be an absolute file path".to_owned(),
            ),
            (
                "manifests",
                file("MutatingAdmissionWebhook", "{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: /etc/x}"),
                "MutatingAdmissionWebhook",
                "couldn't init admission plugin \"MutatingAdmissionWebhook\": staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled".to_owned(),
            ),
            (
                "images",
                file("Other", "{}"),
                "ImagePolicyWebhook",
                "couldn't init admission plugin \"ImagePolicyWebhook\": no config specified".to_owned(),
            ),
            (
                "level",
                file("PodSecurity", "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {warn: high}}"),
                "PodSecurity",
                "failed to initialize admission plugin \"PodSecurity\": PodSecurity invalid: defaults.warn: Invalid value: \"high\": must be one of privileged, baseline, restricted".to_owned(),
            ),
        ] {
            assert_eq!(configured(name, &text, plugin, None).err(), Some(want), "{name}");
        }
    }
}
