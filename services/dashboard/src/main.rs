//! The `burnin-dashboard` service.

fn main() -> std::process::ExitCode {
    dashboard::main()
}
