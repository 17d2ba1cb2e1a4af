//! The `burnin` command.

fn main() -> std::process::ExitCode {
    burnin::main()
}
