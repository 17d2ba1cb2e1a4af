//! This program in its other roles: whoever starts builds and nodes starts itself again.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use crate::{Program, node, supervise};

/// What stands before the arguments of a role.
const HOST: &str = "host";

impl Program {
    /// The program that runs, which must call [`role`] before it does anything else.
    ///
    /// # Errors
    /// When the system does not tell which file it runs from.
    pub fn this() -> io::Result<Self> {
        Ok(Self(vec![std::env::current_exe()?.into(), HOST.into()]))
    }
}

/// Plays the role that the arguments (without the program's name) ask for, to its end: `host build FOLDER` or
/// `host node FOLDER NAME`. None when they ask for none.
pub fn role(arguments: &[OsString]) -> Option<io::Result<()>> {
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match words.as_slice() {
        [host, build, folder] if *host == HOST && *build == "build" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            Some(runtime.and_then(|runtime| runtime.block_on(supervise(Path::new(folder)))))
        }
        [host, kind, folder, name] if *host == HOST && *kind == "node" => {
            let name = name.to_str().ok_or_else(|| io::Error::other("a node's name is text"));
            Some(name.and_then(|name| node::serve(Path::new(folder), name)))
        }
        _ => None,
    }
}
