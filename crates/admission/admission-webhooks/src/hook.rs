//! Compiled webhooks.

use std::sync::Arc;
use std::time::Duration;

use binnacle_admission_matching::Criteria;
use binnacle_admission_matching::expressions::MatchConditions;
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{MutatingWebhook as Webhook, MutatingWebhookConfiguration};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Text;
use binnacle_schema::Value;

use crate::backends::{Backend, Backends};
use crate::metrics::Type;
use crate::review::ReviewVersion;

pub(crate) struct Hook {
    /// The name of the webhook's configuration.
    pub(crate) configuration: Text,
    pub(crate) name: Text,
    /// Source, configuration, name, and the index among the configuration's webhooks with this name.
    pub(crate) id: Text,
    pub(crate) criteria: Criteria,
    pub(crate) conditions: MatchConditions,
    /// True for `failurePolicy: Ignore`.
    pub(crate) ignores_failures: bool,
    /// True if the webhook has no side effects for dry-run requests.
    pub(crate) supports_dry_run: bool,
    /// True for `reinvocationPolicy: IfNeeded`.
    pub(crate) is_reinvocable: bool,
    pub(crate) timeout: Option<Duration>,
    /// `None` if no version of the webhook is supported.
    pub(crate) reviews: Option<ReviewVersion>,
    /// An error if the webhook cannot be called.
    pub(crate) backend: Result<Arc<Backend>, String>,
}

impl Hook {
    /// Compiles the webhooks of a configuration, in order. `source` distinguishes configurations of manifests from
    /// those of the API.
    pub(crate) fn all_of(source: &str, configuration: &Value, of: Type, backends: &Backends) -> Vec<Arc<Self>> {
        // It has all fields of a validating configuration.
        let configuration = FieldRef::<MutatingWebhookConfiguration>::root(configuration);
        let webhooks = configuration.at(MutatingWebhookConfiguration::WEBHOOKS);
        let metadata = configuration.at(MutatingWebhookConfiguration::METADATA);
        let configuration = Text::from(metadata.at(ObjectMeta::NAME).str());
        let mut hooks: Vec<Arc<Self>> = Vec::with_capacity(webhooks.len());
        for webhook in webhooks.values() {
            let name = webhook.at(Webhook::NAME).str();
            // Names need not be unique.
            let number = hooks.iter().filter(|other| other.name == name).count();
            let id = format!("{source}{configuration}/{name}/{number}").into();
            hooks.push(Arc::new(Self::of(&configuration, webhook, id, of, backends)));
        }
        hooks
    }

    fn of(configuration: &Text, webhook: FieldRef<Webhook>, id: Text, of: Type, backends: &Backends) -> Self {
        let text = |field| webhook.at(field).str();
        let seconds = webhook.at(Webhook::TIMEOUT_SECONDS).int().and_then(|seconds| u64::try_from(seconds).ok());
        let versions = webhook.at(Webhook::ADMISSION_REVIEW_VERSIONS).strs();
        Self {
            configuration: configuration.clone(),
            name: text(Webhook::NAME).into(),
            id,
            criteria: Criteria::of_webhook(webhook),
            conditions: MatchConditions::of_webhook(webhook, of.as_str()),
            ignores_failures: text(Webhook::FAILURE_POLICY) == "Ignore",
            supports_dry_run: matches!(text(Webhook::SIDE_EFFECTS), "None" | "NoneOnDryRun"),
            is_reinvocable: text(Webhook::REINVOCATION_POLICY) == "IfNeeded",
            timeout: seconds.map(Duration::from_secs),
            reviews: ReviewVersion::first_of(versions),
            backend: backends.of(webhook.at(Webhook::CLIENT_CONFIG)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::hooks;

    /// Checks the flags of a webhook: `ignores` failures, `dry-run` support, `reinvocable`, and the review version.
    fn check(webhook: &str, want: &str) {
        let hooks = hooks(&format!("[{webhook}]"));
        let hook = &hooks[0];
        let flags = [
            (hook.ignores_failures, "ignores"),
            (hook.supports_dry_run, "dry-run"),
            (hook.is_reinvocable, "reinvocable"),
        ];
        let flags = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name));
        let got: Vec<&str> = flags.chain(hook.reviews.map(|version| version.as_str())).collect();
        assert_eq!(got.join(" "), want, "{webhook}");
    }

    #[test]
    fn reads_policies_and_review_versions() {
        check("{}", "");
        check(r#"{"failurePolicy": "Ignore"}"#, "ignores");
        check(r#"{"failurePolicy": "Fail", "reinvocationPolicy": "Never"}"#, "");
        check(r#"{"reinvocationPolicy": "IfNeeded"}"#, "reinvocable");
        for (effects, want) in [("None", "dry-run"), ("NoneOnDryRun", "dry-run"), ("Some", ""), ("Unknown", "")] {
            check(&format!(r#"{{"sideEffects": "{effects}"}}"#), want);
        }
        check(r#"{"admissionReviewVersions": ["v2", "v1beta1", "v1"]}"#, "v1beta1");
        check(r#"{"admissionReviewVersions": ["v2"]}"#, "");
    }

    #[test]
    fn webhooks_of_the_same_name_have_different_ids() {
        let hooks = hooks(r#"[{"name": "a"}, {"name": "b"}, {"name": "a"}]"#);
        let ids: Vec<&str> = hooks.iter().map(|hook| hook.id.as_str()).collect();
        assert_eq!(ids, ["c/a/0", "c/b/0", "c/a/1"]);
    }
}
