//! A store in a file: its contents at the start of its history, and every change since, so that any revision in between
//! can be restored. `docs/tools.md` has the layout of the file.

mod file;
mod foreign;
mod restore;
mod save;

pub(crate) use file::{Frame, Head, Reader, Writer, examine};
pub(crate) use restore::{Contents, open, restore};
pub(crate) use save::{UnfinishedFile, refuse_existing, save};
