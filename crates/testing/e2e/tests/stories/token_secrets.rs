//! Secrets with tokens of service accounts, which a controller of the server completes and removes.

use binnacle_testkit::{Server, wait_until};
use k8s_openapi::api::core::v1::{ObjectReference, Secret, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::authentication::bearer;

const TYPE: &str = "kubernetes.io/service-account-token";

fn secret(name: &str, account: &str, data: &Value) -> Secret {
    let annotations = json!({"kubernetes.io/service-account.name": account});
    let secret = json!({"metadata": {"name": name, "annotations": annotations}, "type": TYPE, "data": data});
    serde_json::from_value(secret).unwrap()
}

async fn until_gone(secrets: &Api<Secret>, name: &str) {
    wait_until(&format!("{name} is gone"), async || secrets.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8(data.0.clone()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_have_tokens_of_their_accounts() {
    let server = tokio::task::block_in_place(|| Server::durable_with(&["--run-controllers=*"]));
    let client = server.kube().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let post = PostParams::default();
    let robot = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    let robot = accounts.create(&post, &robot).await.unwrap();
    // "b3RoZXI=" is "other": what is there stays.
    for (name, data) in [("one", json!({})), ("two", json!({"namespace": "b3RoZXI="}))] {
        secrets.create(&post, &secret(name, "robot", &data)).await.unwrap();
    }
    let mut tokens = Vec::new();
    for (name, namespace) in [("one", "default"), ("two", "other")] {
        let complete = wait_until("the token is there", async || {
            let secret = secrets.get(name).await.unwrap();
            text(&secret, "token").map(|token| (token, secret))
        });
        let (token, secret) = complete.await;
        assert_eq!(text(&secret, "namespace").as_deref(), Some(namespace));
        assert!(text(&secret, "ca.crt").unwrap().contains("BEGIN CERTIFICATE"));
        assert_eq!(secret.annotations()["kubernetes.io/service-account.uid"], robot.uid().unwrap());
        tokens.push(token);
    }
    let (code, user) = bearer(&server, &tokens[0]).await;
    assert_eq!((code, user.contains("system:serviceaccount:default:robot")), (201, true), "{user}");

    // A token that was removed is issued again.
    let removed = json!({"data": {"token": null}});
    secrets.patch("one", &PatchParams::default(), &Patch::Merge(removed)).await.unwrap();
    wait_until("the token is there again", async || text(&secrets.get("one").await.unwrap(), "token")).await;

    // A Secret that is gone is not one of the account's any more.
    let of_account = json!({"secrets": [{"name": "two"}, {"name": "three"}]});
    accounts.patch("robot", &PatchParams::default(), &Patch::Merge(of_account)).await.unwrap();
    secrets.delete("two", &DeleteParams::default()).await.unwrap();
    wait_until("the reference is gone", async || {
        let references = accounts.get("robot").await.unwrap().secrets.unwrap_or_default();
        let names: Vec<ObjectReference> =
            references.into_iter().filter(|it| it.name.as_deref() == Some("two")).collect();
        names.is_empty().then_some(())
    })
    .await;
    assert_eq!(accounts.get("robot").await.unwrap().secrets.unwrap()[0].name.as_deref(), Some("three"));
    assert_eq!(bearer(&server, &tokens[1]).await.0, 401);

    // Tokens go with their account; those of an account that never was go, too.
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    until_gone(&secrets, "one").await;
    secrets.create(&post, &secret("nobody", "nobody", &json!({}))).await.unwrap();
    until_gone(&secrets, "nobody").await;
}
