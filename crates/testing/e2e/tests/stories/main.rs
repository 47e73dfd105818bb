//! End-to-end tests of the real program, one module per topic.
//!
//! Every test starts its own server on a free port. Tests that need etcd, kubectl or recorded data are ignored if these
//! were missing when the tests were built.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod documents;
mod manifests;

mod admission;
mod admission_manifests;
mod admission_policies;
mod adoption;
mod aggregation;
mod aggregation_attacks;
mod aggregation_changes;
mod aggregation_namespaces;
mod aggregation_params;
mod aggregation_types;
mod aggregation_upgrades;
mod allocators;
mod api_controllers;

mod auditing;
mod authentication;
mod authorization;
mod bad_input;
mod bounded_custom;
mod bounded_proxies;
mod bounded_work;
mod cardinality;
mod cbor;
mod charts;
mod cluster;
mod comparison;
mod compose_example;
mod compression;
mod config_file;
mod controller;
mod conversion_webhooks;
mod coordinated_election;
mod cryptography;
mod custom_resources;
mod custom_resources_killed;
mod dashboards;
mod derived_operator;
mod distributed_claims;
mod documented;
mod durability;
mod egress;
mod election;
mod empty_fields;
mod encryption;
mod etcd;
mod etcd_access;
mod etcd_full;
mod etcd_members;
mod evictions;
mod examples;
mod external_signer;
mod families;
mod feature_gates;
mod front_proxies;
mod histories;
mod identity;
mod idle;
mod kubectl_apply;
mod kubectl_changes;
mod kubectl_cluster;
mod kubectl_objects;
mod kubectl_restart;
mod kubectl_rollout;
mod kubectl_streams;
mod kubectl_watch;
mod kubectl_writes;
mod large_input;
mod legacy_addresses;
mod list_forms;
mod live;
mod logical_cluster_addresses;
mod logical_cluster_attacks;
mod logical_cluster_backups;
mod logical_cluster_fairness;
mod logical_cluster_forks;
mod logical_cluster_histories;
mod logical_cluster_host;
mod logical_cluster_quotas;
mod logical_cluster_starts;
mod logical_clusters;
mod look_back;
mod lost_answers;
mod migration;
mod namespaces;
mod nodes;
mod numbers;
mod observability;
mod operator;
mod outside_world;
mod overload;
mod packages;
mod peers;
mod prometheus;
mod protobuf_client;
mod proxies;
mod python_client;
mod query_values;
mod random;
mod read_only;
mod reference_data;
mod reflector;
mod resumption;
mod rolling_restart;
mod shards;
mod shared_volume;
mod slow_watchers;
mod soak;
mod static_pod;
mod stopping;
mod storage_metrics;
mod storage_migration;
mod storage_versions;
mod tilt_example;
mod token_secrets;
mod tour;
mod tracing_example;
mod unreadable_objects;
mod volume_protection;
mod vulnerabilities;
mod webhooks;
mod write_permissions;

/// Creates a namespace.
async fn namespace(client: &kube::Client, name: &str) {
    let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    kube::Api::all(client.clone()).create(&kube::api::PostParams::default(), &namespace).await.unwrap();
}
