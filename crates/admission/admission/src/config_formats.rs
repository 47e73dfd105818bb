//! The formats of the admission configuration and of the configurations of its plugins.

use binnacle_config::{Format, list, text};
use binnacle_fields::core::v1::{ScopedResourceSelectorRequirement as Selector, Toleration};
use binnacle_fields::types::{Int, Json, List, Map, Str};
use binnacle_fields::{Field as Handle, messages};
use binnacle_schema::{Field, Ty};

messages! {
    pub(crate) Configuration { PLUGINS: List<PluginConfiguration> = "plugins" }

    pub(crate) PluginConfiguration {
        NAME: Str = "name",
        PATH: Str = "path",
        CONFIGURATION: Json = "configuration",
    }

    /// The configuration of EventRateLimit.
    pub(crate) EventLimitConfiguration { LIMITS: List<Limit> = "limits" }

    pub(crate) Limit {
        TYPE: Str = "type",
        QPS: Int = "qps",
        BURST: Int = "burst",
        CACHE_SIZE: Int = "cacheSize",
    }

    /// The configuration of PodTolerationRestriction.
    pub(crate) TolerationConfiguration {
        DEFAULT: List<Toleration> = "default",
        WHITELIST: List<Toleration> = "whitelist",
    }

    pub(crate) PodSecurityConfiguration {
        DEFAULTS: PodSecurityDefaults = "defaults",
        EXEMPTIONS: PodSecurityExemptions = "exemptions",
    }

    pub(crate) PodSecurityDefaults {
        ENFORCE: Str = "enforce",
        ENFORCE_VERSION: Str = "enforce-version",
        AUDIT: Str = "audit",
        AUDIT_VERSION: Str = "audit-version",
        WARN: Str = "warn",
        WARN_VERSION: Str = "warn-version",
    }

    pub(crate) PodSecurityExemptions {
        USERNAMES: List<Str> = "usernames",
        NAMESPACES: List<Str> = "namespaces",
        RUNTIME_CLASSES: List<Str> = "runtimeClasses",
    }

    /// The configuration of ResourceQuota.
    pub(crate) QuotaConfiguration { LIMITED_RESOURCES: List<QuotaLimit> = "limitedResources" }

    pub(crate) QuotaLimit {
        API_GROUP: Str = "apiGroup",
        RESOURCE: Str = "resource",
        MATCH_CONTAINS: List<Str> = "matchContains",
        MATCH_SCOPES: List<Selector> = "matchScopes",
    }

    /// The configuration of both webhook plugins.
    pub(crate) WebhookConfiguration {
        KUBE_CONFIG_FILE: Str = "kubeConfigFile",
        STATIC_MANIFESTS_DIR: Str = "staticManifestsDir",
    }

    /// The configuration of both policy plugins.
    pub(crate) PolicyConfiguration { STATIC_MANIFESTS_DIR: Str = "staticManifestsDir" }

    /// The configuration of PodNodeSelector, which has no kind.
    pub(crate) NodeSelectorConfiguration { SELECTORS: Map<Str> = "podNodeSelectorPluginConfig" }
}

pub(super) const FILE: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    kind: "AdmissionConfiguration",
    scheme: "pkg/server/options/admission.go:51",
    fields: |types| {
        let mut plugin = texts([PluginConfiguration::NAME, PluginConfiguration::PATH]);
        plugin.push(Field::new(PluginConfiguration::CONFIGURATION.name(), Ty::RawExtension));
        vec![list(Configuration::PLUGINS.name(), types.object("AdmissionPluginConfiguration", plugin))]
    },
};

/// The legacy format of the file, in another group.
pub(super) const OLD_FILE: Format = Format { group: "apiserver.k8s.io", versions: &["v1alpha1"], ..FILE };

pub(super) const EVENTS: Format = Format {
    group: "eventratelimit.admission.k8s.io",
    versions: &["v1alpha1"],
    kind: "Configuration",
    scheme: "pkg/admission/eventratelimit/config.go:31",
    fields: |types| {
        let numbers = [Limit::QPS, Limit::BURST, Limit::CACHE_SIZE].map(|field| Field::new(field.name(), Ty::Int32));
        let limit = texts([Limit::TYPE]).into_iter().chain(numbers).collect();
        vec![list(EventLimitConfiguration::LIMITS.name(), types.object("Limit", limit))]
    },
};

pub(super) const TOLERATIONS: Format = Format {
    group: "podtolerationrestriction.admission.k8s.io",
    versions: &["v1alpha1"],
    kind: "Configuration",
    scheme: "pkg/admission/podtolerationrestriction/config.go:32",
    fields: |types| {
        let toleration = || {
            let mut fields = texts([Toleration::KEY, Toleration::OPERATOR, Toleration::VALUE, Toleration::EFFECT]);
            fields.push(Field::new(Toleration::TOLERATION_SECONDS.name(), Ty::Int64));
            types.object("Toleration", fields)
        };
        [TolerationConfiguration::DEFAULT, TolerationConfiguration::WHITELIST]
            .map(|field| list(field.name(), toleration()))
            .into()
    },
};

pub(super) const SECURITY: Format = Format {
    group: "pod-security.admission.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    kind: "PodSecurityConfiguration",
    scheme: "k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31",
    fields: |types| {
        use PodSecurityConfiguration as File;
        use PodSecurityDefaults as Defaults;
        use PodSecurityExemptions as Exemptions;
        let modes = texts([
            Defaults::ENFORCE,
            Defaults::ENFORCE_VERSION,
            Defaults::AUDIT,
            Defaults::AUDIT_VERSION,
            Defaults::WARN,
            Defaults::WARN_VERSION,
        ]);
        let exempt = [Exemptions::USERNAMES, Exemptions::NAMESPACES, Exemptions::RUNTIME_CLASSES];
        let exempt = exempt.map(|field| list(field.name(), Ty::String));
        vec![
            Field::new(File::DEFAULTS.name(), types.object("PodSecurityDefaults", modes)),
            Field::new(File::EXEMPTIONS.name(), types.object("PodSecurityExemptions", exempt.into())),
        ]
    },
};

pub(super) const QUOTA: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    kind: "ResourceQuotaConfiguration",
    scheme: "pkg/admission/plugin/resourcequota/config.go:31",
    fields: |types| {
        let mut scope = texts([Selector::SCOPE_NAME, Selector::OPERATOR]);
        scope.push(list(Selector::VALUES.name(), Ty::String));
        let scope = types.object("ScopedResourceSelectorRequirement", scope);
        let mut limit = texts([QuotaLimit::API_GROUP, QuotaLimit::RESOURCE]);
        limit.push(list(QuotaLimit::MATCH_CONTAINS.name(), Ty::String));
        limit.push(list(QuotaLimit::MATCH_SCOPES.name(), scope));
        vec![list(QuotaConfiguration::LIMITED_RESOURCES.name(), types.object("LimitedResource", limit))]
    },
};

/// The legacy format, in another group and with another kind.
pub(super) const OLD_QUOTA: Format = Format {
    group: "resourcequota.admission.k8s.io",
    versions: &["v1beta1", "v1alpha1"],
    kind: "Configuration",
    ..QUOTA
};

/// The configuration of both webhook plugins.
pub(super) const WEBHOOKS: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    kind: "WebhookAdmissionConfiguration",
    scheme: "pkg/admission/plugin/webhook/config/kubeconfig.go:34",
    fields: |_| texts([WebhookConfiguration::KUBE_CONFIG_FILE, WebhookConfiguration::STATIC_MANIFESTS_DIR]),
};

/// The configuration of the ValidatingAdmissionPolicy plugin.
pub(super) const VALIDATING_POLICIES: Format = Format {
    kind: "ValidatingAdmissionPolicyConfiguration",
    scheme: "pkg/admission/plugin/policy/config/config.go:32",
    fields: |_| texts([PolicyConfiguration::STATIC_MANIFESTS_DIR]),
    ..WEBHOOKS
};

/// The configuration of the MutatingAdmissionPolicy plugin.
pub(super) const MUTATING_POLICIES: Format =
    Format { kind: "MutatingAdmissionPolicyConfiguration", ..VALIDATING_POLICIES };

fn texts<M, const N: usize>(fields: [Handle<M, Str>; N]) -> Vec<Field> {
    fields.map(|field| text(field.name())).into()
}
