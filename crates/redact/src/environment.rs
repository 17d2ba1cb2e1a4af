//! The environment block of a JSON document: `"env":["NAME=value",...]`, as written by nccl-tests.
//!
//! Values of variables that describe the measurement are kept; all other values are removed.

use crate::window::{StreamWindow, Undecided};

/// Prefixes of names that may be kept.
const BEGIN: [&str; 21] = [
    "NCCL_", "CUDA_", "OMPI_", "SLURM_", "PMIX_", "PMI_", "UCX_", "UCC_", "FI_", "MPI_", "HYDRA_", "PRTE_",
    "HWLOC_", "OMP_", "KMP_", "NVIDIA_", "NVSHMEM_", "IBV_", "MLX5_", "LC_", "BURNIN_",
];
/// Complete names that may be kept.
const ARE: [&str; 13] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "HOSTNAME",
    "HOST",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "LANG",
    "TZ",
    "TERM",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
];
/// Words that mark a variable as secret, such as `JWT` in `SLURM_JWT`.
const SECRET: [&str; 7] = ["TOKEN", "SECRET", "PASS", "KEY", "JWT", "CRED", "AUTH"];
/// Maximum length of a name.
const NAME: usize = 256;

/// Beginning of an environment block, case-insensitive.
pub(crate) const BEGINS: &str = "\"env\"";

/// Length of a block's beginning, to its `[`; `None` if the key is not followed by a list.
pub(crate) fn begins(window: &StreamWindow<'_>) -> Result<Option<usize>, Undecided> {
    let blank = |byte: u8| byte.is_ascii_whitespace();
    let mut at = BEGINS.len();
    for wanted in [b':', b'['] {
        at += window.run(at, 64, blank)?;
        if window.byte(at)? != Some(wanted) {
            return Ok(None);
        }
        at += 1;
    }
    Ok(Some(at))
}

/// The next string of a block.
pub(crate) enum EnvironmentText {
    /// The value is removed; it starts `name` bytes after the opening quote.
    Secret {
        /// Length of the name with its equals sign.
        name: usize,
    },
    /// The string is scanned like other text.
    Open {
        /// Length between the quotes.
        length: usize,
    },
}

/// Treatment of the string whose opening quote is at this position.
pub(crate) fn text(window: &StreamWindow<'_>) -> Result<EnvironmentText, Undecided> {
    let name = window.run(1, NAME, |byte| !matches!(byte, b'=' | b'"' | b'\\' | b'\n'))?;
    let assigns = name < NAME && window.byte(1 + name)? == Some(b'=');
    let nothing_to_hide = if assigns {
        allowed(&window.rest(1)[..name]) || matches!(window.byte(name + 2)?, Some(b'"') | None)
    } else {
        name < NAME
    };
    let secret = EnvironmentText::Secret { name: if assigns { name + 1 } else { 0 } };
    if !nothing_to_hide {
        return Ok(secret);
    }
    let mut at = 1;
    loop {
        match window.byte(at)? {
            Some(b'\\') => at += 2,
            Some(b'"' | b'\n') => return Ok(EnvironmentText::Open { length: at - 1 }),
            Some(_) => at += 1,
            // The string is truncated or exceeds the lookahead: its value is removed.
            None => return Ok(secret),
        }
    }
}

fn allowed(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let listed = ARE.contains(&name) || BEGIN.iter().any(|begin| name.starts_with(begin));
    listed && !SECRET.iter().any(|secret| name.contains(secret))
}
