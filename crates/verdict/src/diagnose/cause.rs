//! Named causes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes suspected for a cause, with their confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SuspectedNodes {
    /// No node is suspected.
    NoNode,
    /// The nodes with evidence, unless all nodes have it.
    WithEvidence(f64),
    /// The nodes with evidence, if they are a minority.
    Minority(f64),
}
use SuspectedNodes::{Minority, NoNode, WithEvidence};

/// Builds the enum and the table of names, texts and suspects.
macro_rules! causes {
    ($($variant:ident = $name:literal, $suspected_nodes:expr, $text:literal;)*) => {
        /// A cause. Earlier entries explain more than later ones.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum Cause {
            $(#[doc = $text] #[serde(rename = $name)] $variant,)*
        }

        impl Cause {
            /// All causes, in order of precedence: earlier ones explain more symptoms.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name of the cause in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Explanation and next step.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub(crate) const fn suspected_nodes(self) -> SuspectedNodes {
                match self { $(Self::$variant => $suspected_nodes,)* }
            }
        }
    };
}

causes! {
    IndependentRuns = "independent_runs", NoNode,
        "The ranks ran independently, because launcher and MPI are not connected: with Slurm set --mpi=pmix, with mpirun use the MPI the program was built with.";
    NodeMissing = "node_missing", WithEvidence(0.95),
        "A node of the cluster did not participate: check its scheduler state and the launcher's host list.";
    WrongRankCount = "wrong_rank_count", NoNode,
        "The number of ranks differs from the number of GPUs: check tasks per node, -g, and the available nodes.";
    Preempted = "preempted", NoNode,
        "The provider preempted a node, which is no evidence about the hardware: run again.";
    NodeFailed = "node_failed", WithEvidence(0.9),
        "A node stopped responding: check its serial console and the scheduler's reason.";
    GpuFault = "gpu_fault", WithEvidence(0.95),
        "The driver reports a fault of a GPU: drain the node and look up the Xid.";
    DataCorruption = "data_corruption", NoNode,
        "Received data is wrong: drain the nodes and locate the bad one with pair tests.";
    GuestConfigRejected = "guest_config_rejected", NoNode,
        "The guest config checker rejected an NCCL setting: source the image's nccl-env-profile.sh last and do not override its settings.";
    RxdmGpuCount = "rxdm_gpu_count", WithEvidence(0.95),
        "RxDM detected a wrong number of GPUs: reboot or replace the node.";
    RxdmNotReady = "rxdm_not_ready", WithEvidence(0.9),
        "RxDM was not ready when NCCL started: check its container's log on the node and the prolog; a freshly booted node needs more time.";
    ApertureDevicesMissing = "aperture_devices_missing", WithEvidence(0.9),
        "/dev/aperture_devices was not created at boot: replace the node, or run its start-up script again.";
    ProfileMissing = "profile_missing", WithEvidence(0.9),
        "nccl-env-profile.sh is missing on the node, so NCCL is not configured for this network: install the image's TCPXO files again, or replace the node.";
    StorageBroken = "storage_broken", WithEvidence(0.9),
        "The shared storage of a node is wrong: not mounted, mounted from elsewhere, or without the files that another node wrote. Mount it again, or replace the node.";
    PluginUnloadable = "plugin_unloadable", NoNode,
        "The network plug-in is incompatible: it needs another version of glibc or NCCL than the image has.";
    PluginNotFound = "plugin_not_found", NoNode,
        "NCCL found no network plug-in: check that its folder is mounted and in LD_LIBRARY_PATH inside the container.";
    DevicesNotFound = "devices_not_found", WithEvidence(0.9),
        "NCCL found no RDMA device: check drivers, /dev/infiniband, and the pod's network interfaces.";
    SocketFallback = "socket_fallback", Minority(0.9),
        "Data goes over TCP sockets instead of the fast network: check why its plug-in or its devices are not used.";
    GdrOff = "gdr_off", Minority(0.8),
        "Data goes through host memory: GPUDirect RDMA is off. Load nvidia_peermem, or a kernel with DMA-BUF, and check that ACS is off.";
    InterfaceNotFound = "interface_not_found", WithEvidence(0.8),
        "NCCL found no network interface with the configured name: compare NCCL_SOCKET_IFNAME with the node's interfaces.";
    MixedInterfaces = "mixed_interfaces", NoNode,
        "Nodes use interfaces of different names: they differ in image or in NIC naming.";
    OutOfMemory = "out_of_memory", Minority(0.5),
        "Out of memory: measure smaller sizes, or check for other processes on the node.";
    ContainerFailed = "container_failed", Minority(0.5),
        "The container did not start: read the hook's own message, and check the image's path and the shared file system.";
    ProgramMissing = "program_missing", NoNode,
        "The program or one of its libraries is missing in the image: build it, or correct the path.";
    FolderMissing = "folder_missing", NoNode,
        "The working folder is not on every node: submit from a shared folder.";
    PrologFailed = "prolog_failed", WithEvidence(0.7),
        "The scheduler's prolog failed and holds the job: repair the node, then release the job.";
    RdmaError = "rdma_error", Minority(0.5),
        "The fabric lost a peer: wrong GID or route, a failed link or a failed peer. Test the nodes in pairs.";
    Crashed = "crashed", Minority(0.5),
        "A process crashed: NCCL and its plug-in may be of different versions.";
    CudaError = "cuda_error", WithEvidence(0.6),
        "A CUDA call failed: check the GPU's state with nvidia-smi and the kernel log.";
    TimedOut = "timed_out", NoNode,
        "The time limit expired: check where the log stops, or raise the limit.";
    PeerLost = "peer_lost", NoNode,
        "A peer disconnected: the rank that reports it is usually not the faulty one.";
    Unreachable = "unreachable", NoNode,
        "Nodes cannot reach each other: check firewalls, routes and NCCL_SOCKET_IFNAME.";
    OverriddenSetting = "overridden_setting", NoNode,
        "A setting that changes NCCL's speed is set in the environment: run without it.";
    WentSilent = "went_silent", NoNode,
        "The run started and then printed nothing more, not even an error: it hung, or its output was truncated.";
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
