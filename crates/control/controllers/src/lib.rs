//! What controllers of this server share: how they run ([`Controller`], [`Manager`]), how they learn of changes
//! ([`ChangeWatcher`], [`Informer`]), and how they read and write objects ([`Objects`]).
//!
//! A controller belongs to the crate of its subject; this crate contains none. Controllers of one server read the
//! watch caches of the process, and write through the registry as clients do, admission included.

mod change_watcher;
mod controller;
mod hook;
mod informer;
mod manager;
mod objects;
mod queues;

pub use change_watcher::{ChangeWatcher, Changes};
pub use controller::{Controller, RETRY_FIRST, RETRY_LAST};
pub use hook::PostStartHook;
pub use informer::{EventHandler, Informer};
pub use manager::Manager;
pub use objects::Objects;
pub use queues::Queues;
