//! A store in a file: its contents when its history began, and every change since, so that any revision in between can
//! be restored. `docs/tools.md` draws the file.

mod file;
mod restore;
mod save;

pub(crate) use file::examine;
pub(crate) use restore::restore;
pub(crate) use save::save;
