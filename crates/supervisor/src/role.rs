//! Roles of this program: it starts itself as supervisor or node.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use crate::{OwnProgram, node, supervise};

/// First argument of a role.
const HOST: &str = "host";

impl OwnProgram {
    /// The running program, which must call [`role`] first.
    ///
    /// # Errors
    /// Returns an error if the path of the executable is unknown.
    pub fn this() -> io::Result<Self> {
        Ok(Self(vec![std::env::current_exe()?.into(), HOST.into()]))
    }
}

/// Runs the role in the arguments (without the program's name) to its end: `host build FOLDER` or `host node
/// FOLDER NAME`. `None` without a role.
pub fn role(arguments: &[OsString]) -> Option<io::Result<()>> {
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match words.as_slice() {
        [host, build, folder] if *host == HOST && *build == "build" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            Some(runtime.and_then(|runtime| runtime.block_on(supervise(Path::new(folder)))))
        }
        [host, kind, folder, name] if *host == HOST && *kind == "node" => {
            let name = name.to_str().ok_or_else(|| io::Error::other("the node's name is not UTF-8"));
            Some(name.and_then(|name| node::serve(Path::new(folder), name)))
        }
        _ => None,
    }
}
