use crate::substitution::{self, Piece};

const SHELLS: [&str; 7] = ["ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"];

/// The index in a command line (tool first) of an argument that a shell would run as a script and that
/// contains a substitution.
///
/// Cloud Build inserts the value into that text, and the shell executes it as code. No quoting makes this
/// safe, so it is rejected rather than escaped.
pub(super) fn pasted_script(line: &[String]) -> Option<usize> {
    (0..line.len()).filter(|&at| is_shell(&line[at])).find_map(|shell| {
        let script = script_position(line, shell + 1)?;
        substitutes(&line[script]).then_some(script)
    })
}

fn is_shell(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    SHELLS.contains(&name)
}

/// Index of the script of `-c`: the first word after the options.
fn script_position(line: &[String], start: usize) -> Option<usize> {
    let mut command = false;
    let mut at = start;
    while let Some(word) = line.get(at) {
        let option = word.starts_with('-') || word.starts_with('+');
        if !option || word == "--" {
            let script = if word == "--" { at + 1 } else { at };
            return (command && script < line.len()).then_some(script);
        }
        let short = !word.starts_with("--");
        command |= short && word.starts_with('-') && word.contains('c');
        // `-o pipefail`, `-euo pipefail` and `--rcfile FILE` consume the next word.
        let takes_value =
            (short && word.ends_with(['o', 'O'])) || ["--rcfile", "--init-file"].contains(&word.as_str());
        at += if takes_value { 2 } else { 1 };
    }
    None
}

fn substitutes(text: &str) -> bool {
    substitution::pieces(text).iter().any(|piece| !matches!(piece, Piece::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substitution_in_a_shell_script_is_found() {
        let table: [(&[&str], Option<usize>); 18] = [
            (&["bash", "-c", "echo $_X"], Some(2)),
            (&["/bin/sh", "-ec", "echo ${_X}"], Some(2)),
            (&["bash", "-c", "-e", "echo $_X"], Some(3)),
            (&["bash", "-eu", "-o", "pipefail", "-c", "$_X"], Some(5)),
            (&["bash", "-euo", "pipefail", "-c", "$_X"], Some(4)),
            (&["bash", "-euxo", "pipefail", "-c", "true", "$_X"], None),
            (&["bash", "-c", "--", "echo $_X"], Some(3)),
            (&["env", "A=b", "bash", "-c", "echo $BUILD_ID"], Some(4)),
            (&["timeout", "5", "/usr/bin/dash", "-c", "$_X"], Some(4)),
            (&["bash", "-c", "echo ${_X:-d}"], Some(2)),
            (&["bash", "-c", "echo $$_X $1", "-", "$_X"], None),
            (&["bash", "./run.sh", "-c", "$_X"], None),
            (&["bash", "--rcfile", "f", "-c", "$_X"], Some(4)),
            (&["bash"], None),
            (&["bash", "-c"], None),
            (&["kubectl", "-c", "$_X"], None),
            (&["echo", "$_X"], None),
            (&["sh", "--", "-c", "$_X"], None),
        ];
        for (line, expected) in table {
            let line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(pasted_script(&line), expected, "{line:?}");
        }
    }
}
