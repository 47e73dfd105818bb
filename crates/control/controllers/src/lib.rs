//! The framework of this server's controllers: running them ([`Controller`], [`Manager`]), watching changes
//! ([`ChangeWatcher`], [`Informer`]), and reading and writing objects ([`Objects`]).
//!
//! Each controller is in the crate of its subject; this crate contains none. Controllers read the watch caches of the
//! process, and write through the registry like clients, including admission.

mod change_watcher;
mod controller;
mod hook;
mod informer;
mod lease_lock;
mod manager;
mod objects;
mod queues;
mod write_audit;

pub use change_watcher::{ChangeWatcher, Changes};
pub use controller::{Controller, RETRY_FIRST, RETRY_LAST};
pub use hook::PostStartHook;
pub use informer::{EventHandler, Informer};
pub use lease_lock::{Leadership, LeaseLock, lease_time};
pub use manager::Manager;
pub use objects::Objects;
pub use queues::Queues;
pub use write_audit::{WriteAuditor, WriteTrail};
