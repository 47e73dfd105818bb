//! The TLS sessions of clients, which later connections to the same server resume.

use std::sync::OnceLock;

use rustls::NamedGroup;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// The sessions to resume, with room for them once there is one: a process may have many configurations without a
/// connection.
#[derive(Debug, Default)]
pub(super) struct LazySessions(OnceLock<ClientSessionMemoryCache>);

/// The number of sessions, as in rustls by default.
const MAX_SESSIONS: usize = 256;

impl LazySessions {
    fn made(&self) -> &ClientSessionMemoryCache {
        self.0.get_or_init(|| ClientSessionMemoryCache::new(MAX_SESSIONS))
    }
}

impl ClientSessionStore for LazySessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.made().set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.get()?.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.made().set_tls12_session(server_name, session);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.get()?.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        if let Some(sessions) = self.0.get() {
            sessions.remove_tls12_session(server_name);
        }
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.made().insert_tls13_ticket(server_name, ticket);
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.get()?.take_tls13_ticket(server_name)
    }
}
