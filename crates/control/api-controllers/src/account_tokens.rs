//! Tokens in Secrets of type `kubernetes.io/service-account-token`: they are issued for the account in the annotation of
//! the Secret, and go with it. They do not expire (KEP-2799 describes what replaces them).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_controllers::Objects;
use binnacle_fields::core::v1::{ObjectReference, Secret, ServiceAccount};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{FieldSelector, FieldTerm, Status, StatusReason, Text};
use binnacle_registry::object::metadata_fields;
use binnacle_registry::{DeleteOptions, ListOptions};
use binnacle_request::User;
use binnacle_schema::Value;
use binnacle_subresources::TokenSigner;
use binnacle_watchcache::Entry;
use serde_json::json;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::queue::Queue;

pub(crate) const NAME: &str = "serviceaccount-token-controller";
const WORKERS: usize = 5;
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The issuer of tokens in Secrets, whatever that of other tokens is.
const ISSUER: &str = "kubernetes/serviceaccount";
const TOKEN_KEY: &str = "token";
const AUTHORITY_KEY: &str = "ca.crt";
const NAMESPACE_KEY: &str = "namespace";

struct Controller {
    accounts: Objects,
    secrets: Objects,
    signer: Arc<dyn TokenSigner>,
    context: ClusterContext,
    queue: Queue<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Secret(TokenSecret),
    /// An account that was deleted.
    Account(Account),
    /// All Secrets: accounts may have been deleted unnoticed.
    All,
}

/// A Secret, as of its last change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TokenSecret {
    name: Text,
    uid: Text,
    /// The account in the annotations. The UID may be absent.
    account: Account,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    namespace: Text,
    name: Text,
    uid: Text,
}

impl TokenSecret {
    fn of(secret: &Value) -> Self {
        let metadata = metadata(secret);
        let annotation = |name: &str| Text::from(metadata.at(ObjectMeta::ANNOTATIONS).key(name).str());
        Self {
            name: metadata.at(ObjectMeta::NAME).str().into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
            account: Account {
                namespace: metadata.at(ObjectMeta::NAMESPACE).str().into(),
                name: annotation(ACCOUNT_NAME),
                uid: annotation(ACCOUNT_UID),
            },
        }
    }
}

impl Account {
    fn of(account: &Value) -> Self {
        let metadata = metadata(account);
        Self {
            namespace: metadata.at(ObjectMeta::NAMESPACE).str().into(),
            name: metadata.at(ObjectMeta::NAME).str().into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
        }
    }
}

pub(crate) async fn run(context: ClusterContext, signer: Arc<dyn TokenSigner>) {
    // kube-controller-manager uses its own identity here, and not that of a service account.
    let user = Arc::new(User::new("system:kube-controller-manager", &[User::AUTHENTICATED]));
    let Ok(secrets) = context.objects_in_name_of(&user, ("", "v1", "secrets")) else { return };
    let Ok(accounts) = context.objects_in_name_of(&user, ("", "v1", "serviceaccounts")) else { return };
    let queue = Queue::new(context.queues.queue("serviceaccount_tokens_service"));
    let controller = Controller { accounts, secrets, signer, context: context.clone(), queue };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let positions = [Position::default(), Position::default()];
    let (all, with_tokens) = (ListOptions::default(), with_tokens());
    let (of_secrets, of_accounts) = (ChangedSecrets(&controller), ChangedAccounts(&controller));
    tokio::join!(
        follow(controller.secrets.resource(), &with_tokens, &of_secrets, &positions[0], shutdown),
        follow(controller.accounts.resource(), &all, &of_accounts, &positions[1], shutdown),
        controller.queue.work(NAME, WORKERS, leadership, shutdown, |key| {
            let controller = &controller;
            async move { controller.sync(&key).await.into() }
        }),
    );
}

/// Selects the Secrets with tokens.
fn with_tokens() -> ListOptions {
    let term = FieldTerm { field: "type".into(), value: TYPE.into(), negated: false };
    ListOptions { fields: FieldSelector::new(vec![term]), ..ListOptions::default() }
}

struct ChangedSecrets<'a>(&'a Controller);

impl Receiver for ChangedSecrets<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new.or(old) else { return };
        if let Ok(secret) = self.0.secrets.decode(entry) {
            self.0.queue.add(Key::Secret(TokenSecret::of(&secret)));
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

struct ChangedAccounts<'a>(&'a Controller);

impl Receiver for ChangedAccounts<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if let (Some(entry), None) = (old, new)
            && let Ok(account) = self.0.accounts.decode(entry)
        {
            self.0.queue.add(Key::Account(Account::of(&account)));
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {
        self.0.queue.add(Key::All);
    }
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<(), Status> {
        match key {
            Key::Secret(secret) => self.sync_secret(secret).await,
            Key::Account(account) => self.delete_tokens(account).await,
            Key::All => {
                for secret in self.token_secrets("").await? {
                    self.queue.add(Key::Secret(TokenSecret::of(&secret)));
                }
                Ok(())
            }
        }
    }

    async fn token_secrets(&self, namespace: &str) -> Result<Vec<Value>, Status> {
        let mut page = self.secrets.resource().list(&self.secrets.context(namespace), &with_tokens()).await?;
        let mut secrets = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                secrets.push(self.secrets.decode(&entry)?);
            }
        }
        Ok(secrets)
    }

    async fn sync_secret(&self, key: &TokenSecret) -> Result<(), Status> {
        let (namespace, account) = (&key.account.namespace, &key.account);
        if account.name.is_empty() {
            return Ok(());
        }
        let secret = self.secrets.get(namespace, &key.name).await?;
        let secret = secret.filter(|secret| metadata(secret).at(ObjectMeta::UID).str() == key.uid.as_str());
        let found = self.accounts.get(namespace, &account.name).await?.filter(|found| {
            account.uid.is_empty() || metadata(found).at(ObjectMeta::UID).str() == account.uid.as_str()
        });
        match (secret, found) {
            (Some(secret), Some(found)) => self.complete(&secret, &Account::of(&found)).await,
            (Some(_), None) => self.delete(key).await,
            (None, Some(found)) => self.remove_reference(&found, &key.name).await,
            (None, None) => Ok(()),
        }
    }

    /// Deletes the tokens of an account that was deleted.
    async fn delete_tokens(&self, account: &Account) -> Result<(), Status> {
        let found = self.accounts.get(&account.namespace, &account.name).await?;
        if found.is_some_and(|found| Account::of(&found) == *account) {
            return Ok(());
        }
        for secret in self.token_secrets(&account.namespace).await? {
            let secret = TokenSecret::of(&secret);
            let of_account = secret.account.name == account.name;
            if of_account && (secret.account.uid.is_empty() || secret.account.uid == account.uid) {
                self.delete(&secret).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, secret: &TokenSecret) -> Result<(), Status> {
        let options =
            DeleteOptions { uid: Some(secret.uid.clone()), has_preconditions: true, ..DeleteOptions::default() };
        match self.secrets.delete_with(&secret.account.namespace, &secret.name, &options).await {
            // Another Secret has the name now.
            Err(status) if status.is(StatusReason::Conflict) => Ok(()),
            deleted => deleted,
        }
    }

    /// Adds what a Secret lacks: a token, the namespace, the authorities.
    async fn complete(&self, secret: &Value, account: &Account) -> Result<(), Status> {
        let authorities = self.context.read_authorities().await?;
        let mut missing = missing_data(secret, &account.namespace, &authorities);
        if is_empty(secret, TOKEN_KEY) {
            let claims = claims(account, metadata(secret).at(ObjectMeta::NAME).str());
            let token = self.signer.sign(&claims).await.map_err(Status::internal)?;
            missing.push((TOKEN_KEY, STANDARD.encode(token)));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let read = metadata(secret).at(ObjectMeta::RESOURCE_VERSION).str();
        let name = metadata(secret).at(ObjectMeta::NAME).str();
        let updated = self.secrets.update(&account.namespace, name, "", |secret| {
            // A later change is an occasion of its own.
            if metadata(secret).at(ObjectMeta::RESOURCE_VERSION).str() != read {
                return;
            }
            let mut fields = FieldMut::<Secret>::root(secret);
            for (key, encoded) in &missing {
                fields.map_entry(Secret::DATA).insert(*key, encoded.as_str());
            }
            let mut metadata = metadata_fields(secret);
            let annotations = metadata.map_entry(ObjectMeta::ANNOTATIONS);
            annotations.insert(ACCOUNT_NAME, account.name.clone());
            annotations.insert(ACCOUNT_UID, account.uid.clone());
        });
        match updated.await {
            Err(status) if status.is(StatusReason::NotFound) || status.is(StatusReason::Conflict) => Ok(()),
            updated => updated,
        }
    }

    /// Removes a deleted Secret from the list of its account.
    async fn remove_reference(&self, account: &Value, secret: &str) -> Result<(), Status> {
        let is_of =
            |reference: &Value| FieldRef::<ObjectReference>::root(reference).at(ObjectReference::NAME).str() == secret;
        let references =
            |account: &Value| FieldRef::<ServiceAccount>::root(account).at(ServiceAccount::SECRETS).list().to_vec();
        if !references(account).iter().any(is_of) {
            return Ok(());
        }
        let key = Account::of(account);
        let updated = self.accounts.update(&key.namespace, &key.name, "", |account| {
            if Account::of(account) == key {
                let rest: Vec<Value> = references(account).into_iter().filter(|reference| !is_of(reference)).collect();
                FieldMut::<ServiceAccount>::root(account)
                    .object()
                    .insert(ServiceAccount::SECRETS.name(), Value::List(rest));
            }
        });
        match updated.await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            updated => updated,
        }
    }
}

/// Returns the data besides the token that a Secret lacks, as base64.
fn missing_data(secret: &Value, namespace: &str, authorities: &str) -> Vec<(&'static str, String)> {
    let mut missing = Vec::new();
    let authorities = STANDARD.encode(authorities);
    if !authorities.is_empty() && data(secret, AUTHORITY_KEY) != authorities {
        missing.push((AUTHORITY_KEY, authorities));
    }
    if is_empty(secret, NAMESPACE_KEY) {
        missing.push((NAMESPACE_KEY, STANDARD.encode(namespace)));
    }
    missing
}

fn is_empty(secret: &Value, key: &str) -> bool {
    data(secret, key).is_empty()
}

/// Returns a member of the data of a Secret, as base64.
fn data<'s>(secret: &'s Value, key: &str) -> &'s str {
    secret.str_at(&["data", key])
}

/// Returns the claims of a token, which the authenticator of tokens in Secrets reads.
fn claims(account: &Account, secret: &str) -> serde_json::Value {
    let Account { namespace, name, uid } = account;
    json!({
        "iss": ISSUER,
        "sub": User::service_account_name(namespace, name).as_str(),
        "kubernetes.io/serviceaccount/namespace": namespace.as_str(),
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": name.as_str(),
        "kubernetes.io/serviceaccount/service-account.uid": uid.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn only_missing_data_are_added() {
        let encoded = |text: &str| STANDARD.encode(text);
        for (data, want) in [
            (value!({}), vec![("ca.crt", encoded("CA")), ("namespace", encoded("ns"))]),
            (value!({"namespace": (encoded("other")), "ca.crt": (encoded("old"))}), vec![("ca.crt", encoded("CA"))]),
            (value!({"namespace": (encoded("ns")), "ca.crt": (encoded("CA"))}), vec![]),
        ] {
            assert_eq!(missing_data(&value!({"data": data}), "ns", "CA"), want);
        }
    }
}
