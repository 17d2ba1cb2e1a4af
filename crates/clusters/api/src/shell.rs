//! Words of a shell command line.

/// Local rank of a process, from the environment of its launcher; 0 for the first process of a node, and without a
/// launcher.
pub const LOCAL_RANK: &str = "${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-${BURNIN_LOCAL_RANK:-0}}}";

/// One word that bash reads as exactly this text, control characters included.
pub fn quote(text: &str) -> String {
    if !text.chars().any(|letter| letter.is_ascii_control()) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let escaped = text.chars().map(|letter| match letter {
        '\'' | '\\' => format!("\\{letter}"),
        letter if letter.is_ascii_control() => format!("\\{:03o}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}
