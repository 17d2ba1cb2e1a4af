//! The `rehearsal` command.

fn main() -> std::process::ExitCode {
    rehearsal::main()
}
