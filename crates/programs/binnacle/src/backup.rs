//! A store in a file: its contents at the start of its history, and every change since, so that any revision in between
//! can be restored. `docs/tools.md` has the layout of the file.

mod examine;
mod file;
mod foreign;
mod restore;
mod save;

pub(crate) use examine::{Examination, examine};
pub(crate) use file::{DIGESTS, Frame, Head, Reader, Writer};
pub(crate) use restore::{Contents, open, restore};
pub(crate) use save::{UnfinishedFile, refuse_existing, save};
