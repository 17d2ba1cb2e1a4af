fn main() -> std::process::ExitCode {
    burnin::main()
}
