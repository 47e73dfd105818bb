//! Flow schemas and priority levels, decoded from API objects (`flowcontrol.apiserver.k8s.io/v1`).

use binnacle_fields::FieldRef;
use binnacle_fields::flowcontrol::v1 as api;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Int, List, Str};
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
        let object = FieldRef::<api::FlowSchema>::root(object);
        let (metadata, spec) = (object.at(api::FlowSchema::METADATA), object.at(api::FlowSchema::SPEC));
        let level = spec.at(api::FlowSchemaSpec::PRIORITY_LEVEL_CONFIGURATION);
        let by = spec.at(api::FlowSchemaSpec::DISTINGUISHER_METHOD);
        Self {
            name: metadata.at(ObjectMeta::NAME).str().into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
            level: level.at(api::PriorityLevelConfigurationReference::NAME).str().into(),
            precedence: spec.at(api::FlowSchemaSpec::MATCHING_PRECEDENCE).int().unwrap_or(1000),
            distinguisher: match by.at(api::FlowDistinguisherMethod::TYPE).str() {
                "ByUser" => Some(Distinguisher::ByUser),
                "ByNamespace" => Some(Distinguisher::ByNamespace),
                _ => None,
            },
            rules: spec.at(api::FlowSchemaSpec::RULES).values().map(Rule::read).collect(),
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
    fn read(rule: FieldRef<'_, '_, api::PolicyRulesWithSubjects>) -> Self {
        let paths = rule.at(api::PolicyRulesWithSubjects::NON_RESOURCE_RULES).values().map(|rule| PathRule {
            verbs: texts(rule.at(api::NonResourcePolicyRule::VERBS)),
            paths: texts(rule.at(api::NonResourcePolicyRule::NON_RESOURCE_URLS)),
        });
        Self {
            subjects: rule.at(api::PolicyRulesWithSubjects::SUBJECTS).values().filter_map(Subject::read).collect(),
            resources: rule.at(api::PolicyRulesWithSubjects::RESOURCE_RULES).values().map(ResourceRule::read).collect(),
            paths: paths.collect(),
        }
    }
}

impl Subject {
    fn read(subject: FieldRef<'_, '_, api::Subject>) -> Option<Self> {
        Some(match subject.at(api::Subject::KIND).str() {
            "User" => Self::User(subject.at(api::Subject::USER).at(api::UserSubject::NAME).get_str()?.into()),
            "Group" => Self::Group(subject.at(api::Subject::GROUP).at(api::GroupSubject::NAME).get_str()?.into()),
            "ServiceAccount" => {
                let account = subject.at(api::Subject::SERVICE_ACCOUNT);
                Self::ServiceAccount {
                    namespace: account.at(api::ServiceAccountSubject::NAMESPACE).get_str()?.into(),
                    name: account.at(api::ServiceAccountSubject::NAME).get_str()?.into(),
                }
            }
            _ => return None,
        })
    }
}

impl ResourceRule {
    fn read(rule: FieldRef<'_, '_, api::ResourcePolicyRule>) -> Self {
        Self {
            verbs: texts(rule.at(api::ResourcePolicyRule::VERBS)),
            groups: texts(rule.at(api::ResourcePolicyRule::API_GROUPS)),
            resources: texts(rule.at(api::ResourcePolicyRule::RESOURCES)),
            namespaces: texts(rule.at(api::ResourcePolicyRule::NAMESPACES)),
            cluster: rule.at(api::ResourcePolicyRule::CLUSTER_SCOPE).bool(),
        }
    }
}

fn texts(list: FieldRef<'_, '_, List<Str>>) -> Vec<Text> {
    list.strs().map(Text::from).collect()
}

/// Returns a number that is not negative; `None` if it is absent.
fn number(field: FieldRef<'_, '_, Int>) -> Option<u32> {
    field.int().and_then(|number| u32::try_from(number).ok())
}

impl PriorityLevel {
    /// Decodes an object with defaults.
    pub fn read(object: &Value) -> Self {
        let object = FieldRef::<api::PriorityLevelConfiguration>::root(object);
        let metadata = object.at(api::PriorityLevelConfiguration::METADATA);
        let spec = object.at(api::PriorityLevelConfiguration::SPEC);
        Self {
            name: metadata.at(ObjectMeta::NAME).str().into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
            spec: match spec.at(api::PriorityLevelConfigurationSpec::TYPE).str() {
                "Exempt" => LevelSpec::read_exempt(spec.at(api::PriorityLevelConfigurationSpec::EXEMPT)),
                _ => LevelSpec::read_limited(spec.at(api::PriorityLevelConfigurationSpec::LIMITED)),
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

impl LevelSpec {
    fn read_exempt(level: FieldRef<'_, '_, api::ExemptPriorityLevelConfiguration>) -> Self {
        Self {
            shares: number(level.at(api::ExemptPriorityLevelConfiguration::NOMINAL_CONCURRENCY_SHARES)).unwrap_or(0),
            lendable_percent: lendable(level.at(api::ExemptPriorityLevelConfiguration::LENDABLE_PERCENT)),
            borrowing_percent: None,
            exempt: true,
            queuing: None,
        }
    }

    fn read_limited(level: FieldRef<'_, '_, api::LimitedPriorityLevelConfiguration>) -> Self {
        use api::LimitedPriorityLevelConfiguration as Limited;
        let response = level.at(Limited::LIMIT_RESPONSE);
        let queues = response.at(api::LimitResponse::TYPE).str() == "Queue";
        Self {
            shares: number(level.at(Limited::NOMINAL_CONCURRENCY_SHARES)).unwrap_or(30),
            lendable_percent: lendable(level.at(Limited::LENDABLE_PERCENT)),
            borrowing_percent: number(level.at(Limited::BORROWING_LIMIT_PERCENT)),
            exempt: false,
            queuing: queues.then(|| Queuing::read(response.at(api::LimitResponse::QUEUING))),
        }
    }
}

fn lendable(percent: FieldRef<'_, '_, Int>) -> u32 {
    number(percent).unwrap_or(0).min(100)
}

impl Queuing {
    fn read(queuing: FieldRef<'_, '_, api::QueuingConfiguration>) -> Self {
        let size = |field, default| number(queuing.at(field)).map_or(default, |size| size as usize).max(1);
        let queues = size(api::QueuingConfiguration::QUEUES, 64);
        Self {
            queues,
            hand_size: size(api::QueuingConfiguration::HAND_SIZE, 8).min(queues),
            length_limit: size(api::QueuingConfiguration::QUEUE_LENGTH_LIMIT, 50),
        }
    }
}
