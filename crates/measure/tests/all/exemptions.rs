//! Text of the samples that no verdict needs.

/// For each format, patterns of text whose digits do not affect the reading, with the reason why no verdict depends
/// on these digits.
pub(crate) fn irrelevant(format: &str) -> &'static [(&'static str, &'static str)] {
    const VERSION: &str = "a version other than the program's own, which is in the environment of the run";
    const DERIVED: &str = "computed by the program from values that are read";
    const PROGRESS: &str = "an intermediate value; the final result is read";
    const SETTING: &str = "an option of the command line, which the workflow contains";
    const IDENTITY: &str = "the identity of a device; its index, serial number and bus id are read once";
    const USE: &str = "the use of a device at one moment, not a fault";
    const CLOCK: &str = "a clock; the clock of the multiprocessors and its maximum are read";
    const PART: &str = "a part or an input of the result, which is read";
    const CHECK: &str = "a value that the program itself checks; the outcome of the check is read";
    const SPREAD: &str = "the spread of a value whose mean is read";
    const FIRST: &str = "values until the first thread ends; those until the last one are read";
    match format {
        "nvbandwidth" => &[
            (r"^CUDA (Runtime|Driver) Version:.*", VERSION),
            (r"^Driver Version:.*", VERSION),
            (r#"^\s*"(CUDA Runtime|Driver) Version".*"#, VERSION),
            (r"^Built from Git version:.*", VERSION),
            (r#"^\s*"git_version".*"#, VERSION),
            (r"^ +\d[ \d]*$", "the header of a matrix: the position of a column is its number"),
            (r#"^\s*"sum".*"#, DERIVED),
            (r"^SUM .*", DERIVED),
            (r#"^\s*"(average|max|min)" : .*"#, DERIVED),
        ],
        "gemm" => &[
            (
                r#""(ms|tflops)": [\d.]{15,}(?<digits>\d)\b"#,
                "the last digit exceeds the precision of a floating-point number: the value is equal",
            ),
            (
                r"^(built_cuda_arch|compute_cap)=.*",
                "a property of the device; the name of the device is read",
            ),
            (r"^(window_seconds|gemm_iterations)=.*", SETTING),
            (r"^total_kernel_ms=.*", DERIVED),
            (r"^max_abs_\w+=.*", "depends on the shape; the relative error is read"),
        ],
        "dcgm-diag" => &[
            (r#""device_id" ?: .*"#, "the model of a device; its index and serial number are read"),
            (r#""entity_group_id" ?: .*"#, "a number for `entity_group`, which is read"),
            (r#""Driver Version Detected" ?: .*"#, VERSION),
            (
                r#""error_(category|severity)" ?: .*"#,
                "several values mean the same severity; `findings_of_dcgm_have_the_severity_of_their_category` has all of them",
            ),
            (r"^\s+.(Error getting the SRAM|GPU 0 allocated).*", "the text of a passed or skipped test"),
            (r#"^\s+"2330",?$"#, "the model of a device; its index and serial number are read"),
            (
                r#"^\s+"(Allocated|GPU to Host|Host to GPU|bidirectional) .*"#,
                "text next to a passed test; DCGM itself compares the value with its threshold",
            ),
            (
                r#"^\t{9}"(error_id|warning)" .*"#,
                "the summary of a test repeats the warnings of its results, which are read",
            ),
        ],
        "perftest" => &[
            (
                r"^ *(Dual-port|Number of qps|Connection|PCIe|ibv_wr|TX depth|CQ Mod|CQE Poll|Mtu|Link type|Max inline|Outstand reads|rdma_cm|Data ex|GID).*",
                SETTING,
            ),
            (r"^ *(local|remote).*", "addresses, which differ in each run"),
            (
                r#""(Mtu|Number_of_qps|TX_depth|CQ_Moderation|Max_inline_data|n_iterations|GID_index)": .*"#,
                SETTING,
            ),
            (r"^ *sl: .*", SETTING),
            (r"^ *\d+ +(?<digits>\d+) ", "the number of iterations, a setting of the command line"),
            (r"^(Mtu|Number_of_qps|TX_depth ?|CQ_Moderation|Max_inline_data|n_iterations): .*", SETTING),
        ],
        "openmetrics" => &[(r" (?<digits>1767614400)$", "the time of the sample")],
        "bmf" => &[(r#""(lower|upper)_value": .*"#, "the spread of the value; bounds apply to the value")],
        "github-action-benchmark" => {
            &[(r#""range": .*"#, "the spread of the value; bounds apply to the value")]
        }
        "key-value" => &[(r"^nic=.*", "a name, not a number: `nic=mlx5_0`")],
        "gpu-burn" => &[
            (r"^.*%  proc'd: .*", PROGRESS),
            (r"Summary at: .*", "the time of a report"),
            (r".*Initialized device .*", "memory sizes before the test"),
            (r"^(Burning for|Results are|Freed memory for dev|cuInit returned).*", SETTING),
        ],
        "gpu-fryer" => &[
            (r"^(\d+ \(|GPU #\d+: Using|Running ).*", PROGRESS),
            (r"dev: [\d.]+", DERIVED),
            (r"\(min: \d\d\.00", "the lowest temperature, which no bound of the program or of Burnin uses"),
            (r#"^.*"type":"progress".*"#, PROGRESS),
            (r#""(temp_sum|temp_min|n_iters|flops_sum)":[\[\d]+"#, DERIVED),
            (r"^Using (precision|BF16).*", SETTING),
        ],
        "kernel-log" => &[
            (r"^(\[[^\]]+\]|[A-Z][a-z]{2} \d\d [\d:]+|\d{4}-\S+)", "the time of a line"),
            (r"^-- Journal begins.*", "the time of the first line that the journal keeps"),
            (r"nvidia-nvswitch(?<digits>\d)", "a number of the driver; the bus id is read"),
            (r"SXid .*, Data \{.*", "the raw data of an SXid, whose number and text precede them"),
            (r"NVRM: (GPU|Rate limiting| ).*", "details of an Xid, whose own line is read"),
            (
                r"\] (CPU:|Hardware name|Call Trace|<TASK>| |WARNING: kernel stack|unwind stack|clocksource).*",
                "not a device fault",
            ),
            (r" node-\d kernel: (Linux version|nvidia 0000:).*", "not a device fault"),
        ],
        "nvidia-smi" => &[
            (r"^<\?xml .*|^<!DOCTYPE .*", "the schema, whose names of fields are read"),
            (r"^\s*(<timestamp>|Timestamp +:).*", "the time of the report"),
            (r"^\s*(<cuda_version>|CUDA Version +:).*", VERSION),
            (r"^\s*<(vbios_version|img_version|oem_object|ecc_object|gsp_firmware_version)>.*", VERSION),
            (r"^\s*(VBIOS Version|Image Version|OEM Object|ECC Object|GSP Firmware Version) +:.*", VERSION),
            (r"^\s*<(uuid|pdi|minor_number|board_id|board_part_number|gpu_part_number)>.*", IDENTITY),
            (r"^\s*<(gpu_module_id|module_id|pci_\w+)>.*", IDENTITY),
            (
                r"^\s*(GPU UUID|GPU PDI|Minor Number|Board ID|Board Part Number|GPU Part Number|Module Id) +:.*",
                IDENTITY,
            ),
            (
                r"^\s*(Bus|Device|Domain|Base Classcode|Sub Classcode|Device Id|Bus Id|Sub System Id) +:.*",
                IDENTITY,
            ),
            (r"^\s*</?bar1_memory_usage>|^\s*BAR1 Memory Usage", "a digit in the name of a section"),
            (r"^\s*<c2c_mode>.*|^\s*GPU C2C Mode +:.*", "a digit in the name of a field"),
            (r"^\s*(<accounting_mode_buffer_size>|Accounting Mode Buffer Size +:).*", SETTING),
            (r"^\s*<(total|reserved|used|free)>.*", USE),
            (r"^\s*(Total|Reserved|Used|Free) +: \d+ MiB", USE),
            (r"^\s*<(tx|rx|gpu|memory|encoder|decoder|jpeg|ofa)_util>.*", USE),
            (
                r"^\s*(Tx Throughput|Rx Throughput|GPU|Memory|Encoder|Decoder|JPEG|OFA) +: [\d.]+ (%|KB/s)",
                USE,
            ),
            (r"^\s*<(session_count|average_fps|average_latency|fan_speed)>.*", USE),
            (r"^\s*(Active Sessions|Average FPS|Average Latency) +:.*", USE),
            (r"^\s*<(performance_state|power_state|average_power_draw|graphics_volt)>.*", USE),
            (r"^\s*(Performance State|Average Power Draw) +:.*", USE),
            (r"^\s*<\w+_power_limit>.*|^\s*<power_limit>.*", SETTING),
            (r"^\s*(Requested|Default|Min|Max) Power Limit +:.*", SETTING),
            (r"^\s*<gpu_temp_\w+_threshold>.*|^\s*<gpu_target_temp\w*>.*", "a limit of the device"),
            (
                r"^\s*<gpu_temp_tlimit>.*|T\.Limit Temp +:.*",
                "a limit of the device, and the distance from it",
            ),
            (r"^\s*<(graphics|video|mem)_clock>.*|^\s*(Graphics|Video|Memory) +: \d+ MHz", CLOCK),
            (r"^\s*<sm_clock>.*|^\s*SM +: \d+ MHz", CLOCK),
            (
                r"^\s*<clocks_\w+_reasons_counters_\w+>.*|^\s*(SW Power Capping|Sync Boost|SW Thermal Slowdown|HW Thermal Slowdown|HW Power Braking) +: \d+ us",
                "times since the driver was loaded, not of the test; active reasons are read",
            ),
            (
                r"^\s*<(device_current_link_gen|max_device_link_gen|max_host_link_gen)>.*|^\s*Device (Current|Max) +:.*",
                "parts of the generation of the link and of its maximum, which are read",
            ),
            (
                r"^\s*(<replay_rollover_counter>|Replay Number Rollovers +:).*",
                "the counter of replays is read",
            ),
            (
                r"^\s*<row_remapper_histogram_\w+>.*|^\s*(Max|High|Partial|Low|None) +: \d+ bank.*",
                "spare rows; remapped ones are read",
            ),
            (
                r"^\s*<remapped_row_\w+_inactive>.*|^\s*Inactive (Unc|C)orrectable Error +:.*",
                "inactive row remappings",
            ),
            (
                r"^\s*<sram_(l2|sm|microcontroller|pcie|other)>.*|^\s*SRAM (L2|SM|Microcontroller|PCIE|Other) +:.*",
                "parts of the uncorrectable errors, whose number is read",
            ),
            (
                r"^\s*<(index|gpu_instance_id|compute_instance_id|\w+_count|sram_uncorrectable)>.*",
                "a MIG device; the counters of its GPU include its errors",
            ),
        ],
        "hpl" => &[
            (r"^HPLinpack .* (?<digits>\w+ \d+, \d{4})$", "the date of the release"),
            (r"^HPLinpack 2.1 .*", "the release that HPL-NVIDIA is based on; its own version is read"),
            (
                r"^(N|NB|P|Q|NBMIN|NDIV|DEPTH|SWAP|ALIGN|BCAST|L1) +: .*",
                "HPL.dat; the labels of a result have its own parameters",
            ),
            (
                r"^- (The relative machine|Computational tests).*",
                "the machine precision and the threshold of the residual, with which the program compares it",
            ),
            (r"^(Column|Prog)=.*", PROGRESS),
            (r"^HPL_pdgesv\(\) .*", "start and end of a test; its duration is read"),
            (r"^  (Peak clock|SM version|Number of SMs).*", "a property of the device"),
            (r"^\|\|\S*\|\|_oo  ?[. ]+= .*", "parts of the residual, which is read"),
        ],
        "hpcg" => &[
            (r"^(Release date|start of application|\d{4}-\d\d-\d\d ).*", "a time, or the number of threads"),
            (
                r"^ *(Distributed Processes|Threads per processes|Global n[xyz]|np[xyz]|n[xyz]|Lower ipz|Upper ipz): .*",
                SETTING,
            ),
            (
                r"^(Machine Summary|Global Problem Dimensions|Processor Dimensions|Local Domain Dimensions)::.*",
                SETTING,
            ),
            (
                r"^ *(Number of|Grid Level|Setup Time|Setup time|Total memory|Memory used|Memory use|Bytes per equation).*",
                PART,
            ),
            (
                r"^(Setup Information|Linear System Information|Multigrid Information|Memory Use Information)::.*",
                PART,
            ),
            (
                r"^ *(Maximum iteration|Expected iteration|Departure|Reference CG|Optimized CG|Total number|Scaled residual|scaled res).*",
                CHECK,
            ),
            (
                r"^(Spectral Convergence Tests|Departure from Symmetry|Iteration Count Information|Reproducibility Information).*",
                CHECK,
            ),
            (
                r"^ *(Optimization phase|DDOT|WAXPBY|SpMV|SymGS|MG|Total|Raw|total|Setup|Optimization|Convergence) *(\w|[^=:])*[:=].*",
                PART,
            ),
            (
                r"^(Benchmark Time Summary|Floating Point Operations Summary|GB/s Summary|User Optimization Overheads).*",
                PART,
            ),
            (r"^GFLOP/s Summary::.*", PART),
            (r"^(Final Summary::| *)HPCG 2.4 .ating .*", "another rating of earlier versions"),
            (
                r"^(Final Summary::| *)(Results are valid but|Official results).*",
                "the duration of a short test",
            ),
            (r"^(GPU: |.* process grid|.* local domain).*", SETTING),
            (r"^(Performing|progress|Completed|Iterations per set).*", PROGRESS),
            (r"^final = .*GF (?<digits>\(.*)", PART),
        ],
        "osu" => &[
            (r"^# \[ pairs.*", SETTING),
            (
                r"^\d+ +[\d.]+(?<digits> +[\d.]+ +[\d.]+ +\d+)$",
                "the spread of the average, and the number of iterations",
            ),
        ],
        "fio" => &[
            (
                r#"^ *"(groupid|timestamp\w*|time|runtime|io_bytes|io_kbytes|total_ios|bw|drop_ios|short_ios)" *: .*"#,
                PART,
            ),
            (r#"^ *"(min|max|mean|stddev|N)" *: .*"#, SPREAD),
            (r#"^ *"\d\d\.\d{6}" *: .*"#, "a percentile other than the 99th"),
            (r#"^ *"(bw_bytes|iops)" *: 0.*"#, "0 in a direction that the test does not use"),
            (r"^note: .*", SETTING),
        ],
        "ior" => &[
            (r"^(Began|Finished|StartTime) .*|^\w+ +: \w{3} \w{3} .*", "a time"),
            (r"^(write|read) +[\d.]+ .*", "a single repetition; the largest one is read"),
            (r"MiB/sec (?<digits>\([\d.]+ MB/sec\))", DERIVED),
            (
                r"^WARNING: Incorrect data on (write|read) (?<digits>\(\d+ errors found\))",
                "any number of errors is a fault",
            ),
        ],
        "mdtest" => &[
            (r"^-- (started|finished) at .*", "a time"),
            (r"was launched with .*", SETTING),
            (r"^(Command line used|\d+ tasks).*|^SUMMARY.*", SETTING),
            (r"^   (Directory|File) \w+ +:(?<digits> +\S+ +\S+)", SPREAD),
            (r"^   (Directory|File) \w+ +: +\S+ +\S+ +\S+(?<digits> +\S+)", SPREAD),
            (r"^   (Directory|File) \w+ +: +\d\.\d+ .*", "the duration of a test, whose rate is read"),
        ],
        "elbencho" => &[
            (r"^(?<digits>\d{4}-[^,]+),", "the time of a test"),
            (r",(dir|file),(?<digits>\d*,\d*,\d*,\d*,\d*),", SETTING),
            (r",(?<digits>\d*,\d*,\d*,\d*,\d*,\d*,\d*),(WRITE|READ|MKDIRS),", SETTING),
            (r",(WRITE|READ|MKDIRS),(?<digits>\d*,\d*,\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){4}(?<digits>\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){6}(?<digits>\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){8}(?<digits>(\d*,){9})", PART),
            (r",(WRITE|READ|MKDIRS),(\d*,){17}(?<digits>\d*),\d+,", SPREAD),
            (r",(WRITE|READ|MKDIRS),(\d*,){19}(?<digits>\d*),", SPREAD),
            (r",(WRITE|READ),(\d*,){8}(?<digits>\d*),\d+,\d+,3\.0-1", SPREAD),
            (r",(?<digits>\d+),3\.0-1,", SPREAD),
            (r"(?<digits>3\.[01]-\d),", "the version was read from the first test"),
            (r#""elbencho[ "].*"#, SETTING),
            (r#""(phase_id|iso_start_date|paths|hosts|threads|dirs|files|io_depth)":"[^"]*""#, SETTING),
            (r#""version":"[^"]*""#, "the version was read from the first test"),
            (r#""command":"([^"\\]|\\.)*""#, SETTING),
            (r#""first_done":\{[^}]*\}"#, FIRST),
            (r#""(elapsed_time_ms|entries|bytes|cpu%)":"\d+""#, PART),
            (r#""latency":\{"entries":\{[^}]*\}"#, "the latency of files and folders, whose rate is read"),
            (r#""(min|max)_us":"\d+""#, SPREAD),
        ],
        "training" => &[
            (r"^\[[\d: .-]+\]", "the time of a line"),
            (r"iteration +\d+/ *(?<digits>\d+) ", "the planned number; the last iteration is the end mark"),
            (r"(consumed \w+|global batch size|actual seqlen): +\d+", SETTING),
            (
                r"(learning rate|loss scale|grad norm|samples per second): +\S+",
                "the settings and state of the optimizer",
            ),
            (r"^(using world size|.*number of parameters|.*setting training).*", SETTING),
            (r"datetime: .*", "the time of a line"),
            (r"^ +File .*, line \d+.*", "the position of an error in a program"),
            (
                r"^vm-(?<digits>\d\d-\d\d):",
                "the host of the process that prints the results of all processes",
            ),
            (r"^vm-[\d-]+: +(\[|>|DeepSpeed|saving|\(min).*", "messages of DeepSpeed"),
        ],
        _ => &[],
    }
}
