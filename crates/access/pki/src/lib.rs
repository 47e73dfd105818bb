//! The certificates, keys and kubeconfig files that the server creates for itself at the first start, reuses later, and
//! renews while it runs.
//!
//! Certificate authorities sign two certificates: the serving certificate and the administrator's. An authority is
//! never replaced: a successor is added long before it expires, and both are trusted from then on. A file that exists
//! but cannot be read fails startup: replacing a key silently would lock out all clients that trust it.
//!
//! [`Pki`] depends only on the files and the time. Certificates that were created while the clock was wrong are valid
//! once it is corrected. [`ClientFiles`] are written from a [`Pki`], and [`Renewer`] keeps both up to date.
//!
//! ```
//! use binnacle_pki::private_files::Durability;
//! use binnacle_pki::{Files, Pki, SubjectAltNames, system_clock};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let files = Files::new(directory.path().to_owned(), Durability::Ephemeral);
//! let names = SubjectAltNames::new([127, 0, 0, 1].into(), [10, 0, 0, 1].into());
//! let now = system_clock()();
//! let pki = Pki::open(&files, &names, now)?;
//! assert!(pki.has_signed(&pki.serving.certificate));
//! assert_eq!(Pki::open(&files, &names, now)?, pki);
//! # Ok(())
//! # }
//! # example().unwrap();
//! ```

mod client_files;
mod kubeconfig;
mod names;
mod pki;
pub mod private_files;
mod renewal;

pub use client_files::{ClientFile, ClientFiles, OperatorCertificate, SERVING_CERTIFICATE, SERVING_KEY};
pub use kubeconfig::kubeconfig;
pub use names::SubjectAltNames;
pub use pki::{CertifiedKey, Clock, ClusterKeys, Files, Pki, PkiError, ServingCertificate, system_clock};
pub use renewal::{CertificateUsers, Expiry, Renewer};
