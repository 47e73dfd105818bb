//! The priority levels and flow schemas of a new cluster.
//!
//! The filter depends on the mandatory objects, so their specs are always restored. The others are suggestions that an
//! administrator may change.

use binnacle_fields::FieldMut;
use binnacle_fields::flowcontrol::v1::{FlowSchemaSpec, PolicyRulesWithSubjects, ResourcePolicyRule};
use binnacle_schema::{Value, value};

/// A priority level.
pub(super) struct Level {
    pub(super) name: &'static str,
    pub(super) mandatory: bool,
    limits: Limits,
}

enum Limits {
    /// Requests are never limited or queued.
    Exempt,
    /// The number of shares, and the percentage of them that may be lent.
    Limited { shares: i64, lendable: i64, response: Response },
}

enum Response {
    Reject,
    /// The number of queues, and the number of queues among which a flow may choose.
    Queue {
        queues: i64,
        hand: i64,
    },
}

/// A flow schema.
pub(super) struct Schema {
    pub(super) name: &'static str,
    pub(super) mandatory: bool,
    level: &'static str,
    precedence: i64,
    /// The method that distinguishes flows within the schema; empty for a single flow.
    distinguisher: &'static str,
    subjects: &'static [Subject],
    resources: &'static [Resources],
    /// Verb and paths.
    paths: Option<(&'static str, &'static [&'static str])>,
}

enum Subject {
    User(&'static str),
    Group(&'static str),
    /// Namespace and name.
    ServiceAccount(&'static str, &'static str),
}

struct Resources {
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
    cluster_scope: bool,
}

pub(super) static LEVELS: [Level; 8] = [
    limited("system", 30, 33, queue(64, 6)),
    limited("node-high", 40, 25, queue(64, 6)),
    limited("leader-election", 10, 0, queue(16, 4)),
    limited("workload-high", 40, 50, queue(128, 6)),
    limited("workload-low", 100, 90, queue(128, 6)),
    limited("global-default", 20, 50, queue(128, 6)),
    Level { mandatory: true, ..limited("catch-all", 5, 0, Response::Reject) },
    Level { name: "exempt", mandatory: true, limits: Limits::Exempt },
];

pub(super) static SCHEMAS: [Schema; 11] = [
    schema("system-nodes", "system", 500, "ByUser", &[Subject::Group("system:nodes")]).everything(),
    Schema {
        resources: &[
            Resources { verbs: ANY, group: "", resources: &["nodes", "nodes/status"], cluster_scope: true },
            Resources { verbs: ANY, group: "coordination.k8s.io", resources: &["leases"], cluster_scope: false },
        ],
        ..schema("system-node-high", "node-high", 400, "ByUser", &[Subject::Group("system:nodes")])
    },
    Schema { paths: Some(("get", &["/healthz", "/readyz", "/livez"])), ..schema("probes", "exempt", 2, "", EVERYBODY) },
    Schema {
        resources: &[Resources {
            verbs: &["get", "create", "update"],
            group: "coordination.k8s.io",
            resources: &["leases"],
            cluster_scope: false,
        }],
        ..schema(
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            &[
                Subject::User("system:kube-controller-manager"),
                Subject::User("system:kube-scheduler"),
                Subject::ServiceAccount("kube-system", "*"),
            ],
        )
    },
    schema(
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        &[Subject::User("system:kube-controller-manager")],
    )
    .everything(),
    schema("kube-scheduler", "workload-high", 800, "ByNamespace", &[Subject::User("system:kube-scheduler")])
        .everything(),
    schema(
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        &[Subject::ServiceAccount("kube-system", "*")],
    )
    .everything(),
    schema("service-accounts", "workload-low", 9000, "ByUser", &[Subject::Group("system:serviceaccounts")])
        .everything(),
    schema("global-default", "global-default", 9900, "ByUser", EVERYBODY).everything(),
    schema("exempt", "exempt", 1, "", &[Subject::Group("system:masters")]).everything().mandatory(),
    schema("catch-all", "catch-all", 10000, "ByUser", EVERYBODY).everything().mandatory(),
];

const ANY: &[&str] = &["*"];
const EVERYBODY: &[Subject] = &[Subject::Group("system:unauthenticated"), Subject::Group("system:authenticated")];

const fn limited(name: &'static str, shares: i64, lendable: i64, response: Response) -> Level {
    Level { name, mandatory: false, limits: Limits::Limited { shares, lendable, response } }
}

const fn queue(queues: i64, hand: i64) -> Response {
    Response::Queue { queues, hand }
}

const fn schema(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: &'static str,
    subjects: &'static [Subject],
) -> Schema {
    Schema { name, mandatory: false, level, precedence, distinguisher, subjects, resources: &[], paths: None }
}

impl Schema {
    const fn everything(self) -> Self {
        const ALL: &[Resources] = &[Resources { verbs: ANY, group: "*", resources: ANY, cluster_scope: true }];
        Self { resources: ALL, paths: Some(("*", ANY)), ..self }
    }

    const fn mandatory(self) -> Self {
        Self { mandatory: true, ..self }
    }

    pub(super) fn spec(&self) -> Value {
        let mut rule = Value::default();
        let mut fields = FieldMut::<PolicyRulesWithSubjects>::root(&mut rule);
        fields.set(PolicyRulesWithSubjects::SUBJECTS, self.subjects.iter().map(Subject::value).collect::<Vec<_>>());
        if !self.resources.is_empty() {
            let rules: Vec<Value> = self.resources.iter().map(Resources::value).collect();
            fields.set(PolicyRulesWithSubjects::RESOURCE_RULES, rules);
        }
        if let Some((verb, paths)) = self.paths {
            let rules = value!([{"verbs": [verb], "nonResourceURLs": (texts(paths))}]);
            fields.set(PolicyRulesWithSubjects::NON_RESOURCE_RULES, rules);
        }
        let mut spec = Value::default();
        let mut fields = FieldMut::<FlowSchemaSpec>::root(&mut spec);
        fields.set(FlowSchemaSpec::PRIORITY_LEVEL_CONFIGURATION, value!({"name": (self.level)}));
        fields.set(FlowSchemaSpec::MATCHING_PRECEDENCE, self.precedence);
        if !self.distinguisher.is_empty() {
            fields.set(FlowSchemaSpec::DISTINGUISHER_METHOD, value!({"type": (self.distinguisher)}));
        }
        fields.set(FlowSchemaSpec::RULES, vec![rule]);
        spec
    }
}

impl Level {
    pub(super) fn spec(&self) -> Value {
        match &self.limits {
            Limits::Exempt => {
                value!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0i64, "lendablePercent": 0i64}})
            }
            Limits::Limited { shares, lendable, response } => value!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": (*shares),
                "limitResponse": (response.value()),
                "lendablePercent": (*lendable)
            }}),
        }
    }
}

impl Response {
    fn value(&self) -> Value {
        match self {
            Self::Reject => value!({"type": "Reject"}),
            Self::Queue { queues, hand } => value!({"type": "Queue", "queuing": {
                "queues": (*queues), "handSize": (*hand), "queueLengthLimit": 50i64
            }}),
        }
    }
}

impl Subject {
    fn value(&self) -> Value {
        match *self {
            Self::User(name) => value!({"kind": "User", "user": {"name": name}}),
            Self::Group(name) => value!({"kind": "Group", "group": {"name": name}}),
            Self::ServiceAccount(namespace, name) => {
                value!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}})
            }
        }
    }
}

impl Resources {
    fn value(&self) -> Value {
        let mut rule = Value::default();
        let mut fields = FieldMut::<ResourcePolicyRule>::root(&mut rule);
        fields.set(ResourcePolicyRule::VERBS, texts(self.verbs));
        fields.set(ResourcePolicyRule::API_GROUPS, texts(&[self.group]));
        fields.set(ResourcePolicyRule::RESOURCES, texts(self.resources));
        if self.cluster_scope {
            fields.set(ResourcePolicyRule::CLUSTER_SCOPE, true);
        }
        fields.set(ResourcePolicyRule::NAMESPACES, texts(ANY));
        rule
    }
}

fn texts(items: &[&str]) -> Value {
    Value::List(items.iter().map(|item| Value::from(*item)).collect())
}

#[cfg(test)]
mod tests {
    use binnacle_test_requirements::shared;

    use super::*;

    /// The objects equal those of kube-apiserver.
    #[test]
    #[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
    fn defaults_match_recorded_objects() {
        let recorded = |file: &str| {
            let text = std::fs::read(shared("reference/bootstrap").join(file)).unwrap();
            let list = binnacle_schema::json::parse(&text, &binnacle_schema::Limits::default()).unwrap();
            let mut specs: Vec<_> = list
                .list_at(&["items"])
                .iter()
                .map(|item| (item.str_at(&["metadata", "name"]).to_owned(), item.get("spec").unwrap().clone()))
                .collect();
            specs.sort_by(|a, b| a.0.cmp(&b.0));
            specs
        };
        let mut levels: Vec<_> = LEVELS.iter().map(|level| (level.name.to_owned(), level.spec())).collect();
        levels.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(levels, recorded("prioritylevelconfigurations.json"));
        let mut schemas: Vec<_> = SCHEMAS.iter().map(|schema| (schema.name.to_owned(), schema.spec())).collect();
        schemas.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(schemas, recorded("flowschemas.json"));
    }
}
