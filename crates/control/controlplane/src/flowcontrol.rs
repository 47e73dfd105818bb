//! The objects of API priority and fairness (KEP-1040): the default levels and schemas, and the condition of each
//! schema that shows whether its level exists.

mod dangling;
mod defaults;
mod informers;
mod producer;

pub(crate) use dangling::maintain_conditions;
pub use informers::follow_flow_control;
pub(crate) use producer::ensure;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";

#[cfg(test)]
mod tests {
    use binnacle_registry::{Catalog, Context, DeleteOptions};
    use binnacle_schema::{Value, value};
    use binnacle_test_cluster::{Running, objects, until};

    use super::*;
    use crate::{Config, ControlPlane};

    async fn start_control_plane() -> (Catalog, Running) {
        let resources = binnacle_test_cluster::resources();
        let plane = ControlPlane::new(resources.clone(), Config::default());
        let running = Running::start([vec![plane.namespaces()], plane.controllers()]).await;
        (resources, running)
    }

    fn condition<'a>(schema: &'a Value, member: &str) -> &'a str {
        schema.list_at(&["status", "conditions"]).first().map_or("", |condition| condition.str_at(&[member]))
    }

    #[tokio::test]
    async fn creates_every_default_without_dangling_references() {
        let (resources, _running) = start_control_plane().await;
        let schemas = objects(&resources, GROUP, SCHEMAS);
        for schema in &defaults::SCHEMAS {
            let found = until(&schemas, "", schema.name, |schema| condition(schema, "status") == "False").await;
            assert_eq!(found.str_at(&["metadata", "annotations", "apf.kubernetes.io/autoupdate-spec"]), "true");
            let managers = found.list_at(&["metadata", "managedFields"]);
            let managers =
                managers.iter().map(|m| (m.str_at(&["manager"]), m.str_at(&["operation"]), m.str_at(&["subresource"])));
            assert_eq!(
                managers.collect::<Vec<_>>(),
                [
                    ("api-priority-and-fairness-config-consumer-v1", "Apply", "status"),
                    ("api-priority-and-fairness-config-producer-v1", "Update", ""),
                ]
            );
        }
        let exempt = schemas.get("", "exempt").await.unwrap().unwrap();
        assert_eq!(
            condition(&exempt, "message"),
            "This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" and it exists"
        );
        assert_eq!(condition(&exempt, "reason"), "Found");
    }

    #[tokio::test]
    async fn dangling_condition_follows_priority_level() {
        let (resources, _running) = start_control_plane().await;
        let (schemas, levels) = (objects(&resources, GROUP, SCHEMAS), objects(&resources, GROUP, LEVELS));
        let schema = value!({
            "metadata": {"name": "mine"},
            "spec": {"priorityLevelConfiguration": {"name": "gold"}, "matchingPrecedence": 9000i64, "rules": []}
        });
        schemas.create("", schema).await.unwrap();
        let dangling = until(&schemas, "", "mine", |schema| condition(schema, "status") == "True").await;
        assert_eq!(condition(&dangling, "reason"), "NotFound");
        assert_eq!(
            condition(&dangling, "message"),
            "This FlowSchema references the PriorityLevelConfiguration object named \"gold\" but there is no such object"
        );
        let level = value!({
            "metadata": {"name": "gold"},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
        });
        levels.create("", level).await.unwrap();
        until(&schemas, "", "mine", |schema| condition(schema, "status") == "False").await;
        levels.resource().delete(&Context::internal(""), "gold", &DeleteOptions::default()).await.unwrap();
        until(&schemas, "", "mine", |schema| condition(schema, "status") == "True").await;
    }

    #[tokio::test]
    async fn updates_only_objects_that_follow_defaults() {
        let (resources, _running) = start_control_plane().await;
        let levels = objects(&resources, GROUP, LEVELS);
        let shares = |name: &'static str, shares: i64| {
            levels.update("", name, "", move |level| {
                let members = ["spec", if name == "exempt" { "exempt" } else { "limited" }];
                level.make_at(&members).insert("nominalConcurrencyShares", shares);
            })
        };
        let annotate = |name: &'static str, autoupdate: &'static str| {
            levels.update("", name, "", move |level| {
                level.make_at(&["metadata", "annotations"]).insert("apf.kubernetes.io/autoupdate-spec", autoupdate);
            })
        };
        // Levels: one that follows the defaults, one that does not, one with an invalid annotation, and the mandatory
        // ones.
        shares("system", 31).await.unwrap();
        annotate("node-high", "false").await.unwrap();
        shares("node-high", 41).await.unwrap();
        annotate("workload-low", "maybe").await.unwrap();
        shares("workload-low", 101).await.unwrap();
        annotate("catch-all", "false").await.unwrap();
        shares("exempt", 7).await.unwrap();
        // A deleted level, and one that is no longer a default.
        levels.resource().delete(&Context::internal(""), "global-default", &DeleteOptions::default()).await.unwrap();
        for (name, autoupdate) in [("old", "true"), ("custom", "false")] {
            let level = value!({
                "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": autoupdate}},
                "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
            });
            levels.create("", level).await.unwrap();
        }
        ensure(&resources).await.unwrap();
        for (name, follows, shares) in [
            ("system", "true", 30),
            ("node-high", "false", 41),
            ("workload-low", "false", 101),
            ("catch-all", "true", 5),
            ("exempt", "true", 7),
            ("global-default", "true", 20),
            ("custom", "false", 30),
        ] {
            let level = levels.get("", name).await.unwrap().unwrap();
            assert_eq!(
                level.str_at(&["metadata", "annotations", "apf.kubernetes.io/autoupdate-spec"]),
                follows,
                "{name}"
            );
            let limits = level.at(&["spec", if name == "exempt" { "exempt" } else { "limited" }]).unwrap();
            assert_eq!(limits.int_at(&["nominalConcurrencyShares"]), Some(shares), "{name}");
        }
        assert!(levels.get("", "old").await.unwrap().is_none());
    }
}
