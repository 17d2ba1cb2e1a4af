//! The `xtask` command.

fn main() -> std::process::ExitCode {
    xtask::main()
}
