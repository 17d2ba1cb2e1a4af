//! Phrases used as evidence.
//!
//! Sources: the programs' source code and documentation, and user reports: NCCL (`src/misc`,
//! `src/transport`), nccl-tests, the GPUDirect-TCPXO and gIB plug-ins, Slurm, pyxis, Open MPI, PRRTE, the
//! Linux kernel.

/// The meaning of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the phrases below define the variants")]
pub enum Sign {
    Network,
    Route,
    DirectRoute,
    SocketRoute,
    StagedRoute,
    Interface,
    CudaDriver,
    Plugin,
    Setting,
    Environment,
    /// The line names the node of a program that runs on each node.
    Node,
    Started,
    Began,
    Corrupt,
    PluginMissing,
    NetworkMissing,
    PluginUnloadable,
    NoDevice,
    FastSocket,
    FasTrakOff,
    RxdmNotReady,
    RxdmGpus,
    DirectOff,
    NoAperture,
    NoProfile,
    Storage,
    NoInterface,
    ConfigMismatch,
    OutOfMemory,
    CudaError,
    GpuFault,
    Timeout,
    Preempted,
    NodeFailed,
    PeerLost,
    Unreachable,
    RdmaError,
    Container,
    NoProgram,
    NoFolder,
    Prolog,
    Crash,
}

/// A phrase that is searched in logs, with its meaning.
pub struct CausePhrase {
    /// Exact text, case-sensitive.
    pub text: &'static str,
    /// Meaning of a line with this phrase.
    pub sign: Sign,
    /// Whether the word after the phrase is the affected host.
    pub names_host: bool,
}

const fn p(text: &'static str, sign: Sign) -> CausePhrase {
    CausePhrase { text, sign, names_host: false }
}

const fn of_host(text: &'static str, sign: Sign) -> CausePhrase {
    CausePhrase { text, sign, names_host: true }
}

/// Phrases that are searched in every line, in one pass.
pub const PHRASES: &[CausePhrase] = &[
    // NCCL's configuration.
    p("NCCL INFO Using network ", Sign::Network),
    p(" via NET/", Sign::Route),
    p("NCCL INFO Bootstrap : Using ", Sign::Interface),
    p("cudaDriverVersion ", Sign::CudaDriver),
    p("Loaded net plugin ", Sign::Plugin),
    p("NET/OFI Using aws-ofi-nccl ", Sign::Plugin),
    p("NET/FasTrak plugin initialized, version ", Sign::Plugin),
    p("Initializing network FasTrak, version ", Sign::Plugin),
    p(" set by environment to ", Sign::Setting),
    p("burnin environment: ", Sign::Environment),
    p("burnin node: ", Sign::Node),
    p("NCCL version ", Sign::Began),
    p("RCCL version ", Sign::Began),
    p("NCCL WARN ", Sign::Began),
    p("NCCL failure ", Sign::Began),
    p("HIP failure ", Sign::Began),
    // Output of nccl-tests.
    p("Using devices", Sign::Started),
    p("Out of bounds values", Sign::Corrupt),
    p("Test timeout ", Sign::Timeout),
    // Unused networks.
    p("No plugin found (libnccl-net.so)", Sign::PluginMissing),
    p("Could not find: libnccl-net", Sign::PluginMissing),
    p("Error: network ", Sign::NetworkMissing),
    p("Failed to initialize any NET plugin", Sign::NetworkMissing),
    p("(required by ", Sign::PluginUnloadable),
    p("libnccl-net.so: cannot open shared object", Sign::PluginUnloadable),
    p("libnccl-net.so: undefined symbol", Sign::PluginUnloadable),
    p("Failed to find ncclNetPlugin", Sign::PluginUnloadable),
    p("No compatible NET plugin", Sign::PluginUnloadable),
    p("NET/IB : No device found", Sign::NoDevice),
    p("NET/gIB : No device found", Sign::NoDevice),
    p("NET/FastSocket", Sign::FastSocket),
    p("NET/FasTrak disabled", Sign::FasTrakOff),
    of_host("RxDM not ready on ", Sign::RxdmNotReady),
    p("RxDM not ready after", Sign::RxdmNotReady),
    p("RxDM hasn't finished init", Sign::RxdmNotReady),
    of_host("FAILED to restart rxdm on ", Sign::RxdmNotReady),
    p("Initialization failed with result:", Sign::RxdmNotReady),
    p("Number of GPUs detected ", Sign::RxdmGpus),
    p("GPU Direct RDMA Disabled", Sign::DirectOff),
    p("APERTURE devices failed to initialize", Sign::NoAperture),
    p("/dev/aperture_devices: No such file", Sign::NoAperture),
    p("/dev/aperture_devices': No such file", Sign::NoAperture),
    p("nccl-env-profile.sh: No such file", Sign::NoProfile),
    of_host("STORAGE: ", Sign::Storage),
    p("no socket interface found", Sign::NoInterface),
    p("No socket interface found", Sign::NoInterface),
    p("Failed to find interface", Sign::NoInterface),
    p("NCCL/NET (shim) mismatch", Sign::ConfigMismatch),
    // Failures.
    p("out of memory", Sign::OutOfMemory),
    p("Out of memory", Sign::OutOfMemory),
    p("oom-kill", Sign::OutOfMemory),
    p("oom_kill", Sign::OutOfMemory),
    p("OOMKilled", Sign::OutOfMemory),
    p("CUDA failure ", Sign::CudaError),
    p("Cuda failure ", Sign::CudaError),
    p("unhandled cuda error", Sign::CudaError),
    p("illegal memory access", Sign::CudaError),
    p("NVRM: Xid", Sign::GpuFault),
    p("uncorrectable ECC error", Sign::GpuFault),
    p("fallen off the bus", Sign::GpuFault),
    p("unspecified launch failure", Sign::GpuFault),
    p("DUE TO TIME LIMIT", Sign::Timeout),
    p("DUE TO PREEMPTION", Sign::Preempted),
    p("compute.instances.preempted", Sign::Preempted),
    p("TerminationByKubernetes", Sign::Preempted),
    p("DUE TO NODE FAILURE", Sign::NodeFailed),
    of_host("Lost communication with ", Sign::NodeFailed),
    p("ORTE daemon has unexpectedly failed", Sign::NodeFailed),
    p("PRTE has lost communication", Sign::NodeFailed),
    p("remote process exited or there was a network error", Sign::PeerLost),
    p("Connection closed by remote peer", Sign::PeerLost),
    p("Connection reset by peer", Sign::PeerLost),
    p("Connection refused", Sign::Unreachable),
    p("No route to host", Sign::Unreachable),
    p("(pong failed, retrying", Sign::Unreachable),
    p("Connection timed out", Sign::Unreachable),
    p("vendor err ", Sign::RdmaError),
    p("ibv_modify_qp failed", Sign::RdmaError),
    p("Call to ibv_", Sign::RdmaError),
    p("Got completion from peer", Sign::RdmaError),
    p("pyxis: [ERROR]", Sign::Container),
    p("couldn't start container", Sign::Container),
    p("98-nvidia.sh exited", Sign::Container),
    p(".sqsh: No such file or directory", Sign::Container),
    p("OCI runtime ", Sign::Container),
    p("docker: Error response from daemon", Sign::Container),
    p("container creation failed", Sign::Container),
    p("could not open image", Sign::Container),
    p("ImagePullBackOff", Sign::Container),
    p("ErrImagePull", Sign::Container),
    p("_perf: No such file or directory", Sign::NoProgram),
    p("_perf: command not found", Sign::NoProgram),
    p("_perf: Permission denied", Sign::NoProgram),
    p("_perf: cannot execute", Sign::NoProgram),
    p("_perf: not found", Sign::NoProgram),
    p("_perf: /lib", Sign::NoProgram),
    p("error while loading shared libraries", Sign::NoProgram),
    p("xec format error", Sign::NoProgram),
    p("executable file not found", Sign::NoProgram),
    p("unable to find the specified executable file", Sign::NoProgram),
    p("was unable to launch the specified application", Sign::NoProgram),
    p("couldn't chdir to", Sign::NoFolder),
    p("launch failed requeued held", Sign::Prolog),
    p("Prolog error", Sign::Prolog),
    p("Segmentation fault", Sign::Crash),
    p("Caught signal 11", Sign::Crash),
];

/// Whether a line sets an NCCL performance setting. Common settings that only select interfaces or increase the output are excluded.
pub fn is_tuning(line: &str) -> bool {
    const TUNING: [&str; 13] = [
        "NCCL_ALGO",
        "NCCL_BUFFSIZE",
        "NCCL_IB_DISABLE",
        "NCCL_MAX_CTAS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MAX_NRINGS",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_NTHREADS",
        "NCCL_NVLS_ENABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_PROTO",
        "NCCL_SHM_DISABLE",
    ];
    let is_default = line.contains("_DISABLE set by environment to 0");
    !is_default && TUNING.iter().any(|name| line.contains(&format!("{name} set by")))
}

/// Whether the text after the phrase reports wrong values, as in `Out of bounds values : 2 FAILED`.
pub fn is_corrupt(after: &str) -> bool {
    let count = after.trim_start_matches([' ', ':']);
    after.contains("FAILED") || count.starts_with(|c: char| ('1'..='9').contains(&c))
}
