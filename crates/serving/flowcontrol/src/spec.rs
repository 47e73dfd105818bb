//! Flow schemas and priority levels, decoded from API objects (`flowcontrol.apiserver.k8s.io/v1`).

use binnacle_meta::Text;
use binnacle_schema::Value;

/// The names of the mandatory schemas and levels: `exempt` is never limited, `catch-all` takes all remaining requests.
/// The server has them even before it reads any objects.
pub(crate) const EXEMPT: &str = "exempt";
pub(crate) const CATCH_ALL: &str = "catch-all";

/// A schema, which assigns requests to a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSchema {
    pub name: Text,
    pub uid: Text,
    pub level: Text,
    /// The schema with the lowest precedence is tried first; ties are broken by name.
    pub precedence: i64,
    pub distinguisher: Option<Distinguisher>,
    pub(crate) rules: Vec<Rule>,
}

/// The attribute that divides a schema's requests into flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    ByUser,
    ByNamespace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) resources: Vec<ResourceRule>,
    pub(crate) paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// `*` matches all users, as for groups and names of service accounts.
    User(Text),
    Group(Text),
    ServiceAccount {
        namespace: Text,
        name: Text,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRule {
    pub(crate) verbs: Vec<Text>,
    pub(crate) groups: Vec<Text>,
    pub(crate) resources: Vec<Text>,
    pub(crate) namespaces: Vec<Text>,
    /// True if the rule also matches cluster-scoped requests.
    pub(crate) cluster: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathRule {
    pub(crate) verbs: Vec<Text>,
    pub(crate) paths: Vec<Text>,
}

/// A priority level: a share of the server's seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityLevel {
    pub name: Text,
    pub uid: Text,
    pub spec: LevelSpec,
}

/// The limits of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSpec {
    /// The level's part of all shares.
    pub shares: u32,
    /// The percentage of its seats that other levels may borrow while they are unused.
    pub lendable_percent: u32,
    /// The percentage of its own seats that it may borrow in addition; unlimited if absent.
    pub borrowing_percent: Option<u32>,
    /// True if its requests are exempt from limits.
    pub exempt: bool,
    /// The queues of requests that exceed the seats; without queues these are rejected.
    pub queuing: Option<Queuing>,
}

/// The queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queuing {
    pub queues: usize,
    /// The number of queues in a flow's hand; a request is added to the shortest of them.
    pub hand_size: usize,
    pub length_limit: usize,
}

impl FlowSchema {
    /// Decodes an object with defaults.
    pub fn read(object: &Value) -> Self {
        let by = object.str_at(&["spec", "distinguisherMethod", "type"]);
        let rules = object.list_at(&["spec", "rules"]).iter().map(Rule::read);
        Self {
            name: object.str_at(&["metadata", "name"]).into(),
            uid: object.str_at(&["metadata", "uid"]).into(),
            level: object.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            precedence: object.int_at(&["spec", "matchingPrecedence"]).unwrap_or(1000),
            distinguisher: match by {
                "ByUser" => Some(Distinguisher::ByUser),
                "ByNamespace" => Some(Distinguisher::ByNamespace),
                _ => None,
            },
            rules: rules.collect(),
        }
    }

    /// Returns the mandatory schema `exempt`, for administrators.
    pub(crate) fn exempt() -> Self {
        let all = || vec![Text::new_static("*")];
        let resources =
            vec![ResourceRule { verbs: all(), groups: all(), resources: all(), namespaces: all(), cluster: true }];
        let paths = vec![PathRule { verbs: all(), paths: all() }];
        let subjects = vec![Subject::Group(Text::new_static("system:masters"))];
        Self {
            name: Text::new_static(EXEMPT),
            uid: Text::default(),
            level: Text::new_static(EXEMPT),
            precedence: 1,
            distinguisher: None,
            rules: vec![Rule { subjects, resources, paths }],
        }
    }

    /// Returns the mandatory schema `catch-all`, for requests that no other schema matches.
    pub(crate) fn catch_all() -> Self {
        let mut schema = Self::exempt();
        schema.name = Text::new_static(CATCH_ALL);
        schema.level = Text::new_static(CATCH_ALL);
        schema.precedence = 10_000;
        schema.distinguisher = Some(Distinguisher::ByUser);
        schema.rules[0].subjects =
            ["system:unauthenticated", "system:authenticated"].map(|group| Subject::Group(group.into())).into();
        schema
    }
}

impl Rule {
    fn read(value: &Value) -> Self {
        let subjects = value.list_at(&["subjects"]).iter().filter_map(|subject| {
            Some(match subject.str_at(&["kind"]) {
                "User" => Subject::User(subject.at(&["user", "name"])?.as_str()?.into()),
                "Group" => Subject::Group(subject.at(&["group", "name"])?.as_str()?.into()),
                "ServiceAccount" => Subject::ServiceAccount {
                    namespace: subject.at(&["serviceAccount", "namespace"])?.as_str()?.into(),
                    name: subject.at(&["serviceAccount", "name"])?.as_str()?.into(),
                },
                _ => return None,
            })
        });
        let resources = value.list_at(&["resourceRules"]).iter().map(|rule| ResourceRule {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            namespaces: texts(rule, "namespaces"),
            cluster: rule.bool_at(&["clusterScope"]),
        });
        let paths = value
            .list_at(&["nonResourceRules"])
            .iter()
            .map(|rule| PathRule { verbs: texts(rule, "verbs"), paths: texts(rule, "nonResourceURLs") });
        Self { subjects: subjects.collect(), resources: resources.collect(), paths: paths.collect() }
    }
}

fn texts(value: &Value, name: &str) -> Vec<Text> {
    value.list_at(&[name]).iter().filter_map(Value::as_str).map(Text::from).collect()
}

impl PriorityLevel {
    /// Decodes an object with defaults.
    pub fn read(object: &Value) -> Self {
        let exempt = object.str_at(&["spec", "type"]) == "Exempt";
        let part = if exempt { "exempt" } else { "limited" };
        let number = |path: &[&str]| {
            let path: Vec<&str> = ["spec", part].iter().chain(path).copied().collect();
            object.int_at(&path).and_then(|number| u32::try_from(number).ok())
        };
        let size = |name, default| number(&["limitResponse", "queuing", name]).map_or(default, |n| n as usize).max(1);
        let queues = !exempt && object.str_at(&["spec", part, "limitResponse", "type"]) == "Queue";
        Self {
            name: object.str_at(&["metadata", "name"]).into(),
            uid: object.str_at(&["metadata", "uid"]).into(),
            spec: LevelSpec {
                shares: number(&["nominalConcurrencyShares"]).unwrap_or(if exempt { 0 } else { 30 }),
                lendable_percent: number(&["lendablePercent"]).unwrap_or(0).min(100),
                borrowing_percent: number(&["borrowingLimitPercent"]),
                exempt,
                queuing: queues.then(|| {
                    let queues = size("queues", 64);
                    Queuing {
                        queues,
                        hand_size: size("handSize", 8).min(queues),
                        length_limit: size("queueLengthLimit", 50),
                    }
                }),
            },
        }
    }

    pub(crate) fn exempt() -> Self {
        let spec = LevelSpec { shares: 0, lendable_percent: 0, borrowing_percent: None, exempt: true, queuing: None };
        Self { name: Text::new_static(EXEMPT), uid: Text::default(), spec }
    }

    pub(crate) fn catch_all() -> Self {
        let spec = LevelSpec { shares: 5, lendable_percent: 0, borrowing_percent: None, exempt: false, queuing: None };
        Self { name: Text::new_static(CATCH_ALL), uid: Text::default(), spec }
    }
}
