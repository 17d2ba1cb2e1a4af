//! The values that are read from nvidia-smi's output, with their names in XML and text.

use std::{collections::BTreeMap, sync::LazyLock};

use model::metric::{
    Better::{self, Lower},
    Scope,
};

use crate::format::MetricDefinition;

const NONE: Better = Better::None;

/// A value of a GPU: its path in XML, the sections that contain it and its name in text, and its metric.
pub(super) struct FieldRule {
    pub(super) xml: &'static str,
    pub(super) section: &'static str,
    pub(super) part: &'static str,
    pub(super) name: &'static str,
    pub(super) metric: MetricDefinition,
}

const fn rule(
    xml: &'static str,
    (section, part, name): (&'static str, &'static str, &'static str),
    metric: &'static str,
    unit: &'static str,
    better: Better,
    meaning: &'static str,
) -> FieldRule {
    FieldRule {
        xml,
        section,
        part,
        name,
        metric: MetricDefinition::new(metric, unit, better, Scope::Gpu, meaning),
    }
}

pub(super) const REASONS: &str = "Clocks Event Reasons";
pub(super) const ECC: &str = "ECC Errors";
pub(super) const ROWS: &str = "Remapped Rows";

pub(super) static RULES: [FieldRule; 39] = [
    rule(
        "ecc_errors/volatile/sram_correctable",
        (ECC, "Volatile", "SRAM Correctable"),
        "smi.ecc.volatile.sram_correctable",
        "count",
        Lower,
        "Corrected errors of on-chip memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/volatile/sram_uncorrectable",
        (ECC, "Volatile", "SRAM Uncorrectable"),
        "smi.ecc.volatile.sram_uncorrectable",
        "count",
        Lower,
        "Uncorrected errors of on-chip memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/volatile/sram_uncorrectable_parity",
        (ECC, "Volatile", "SRAM Uncorrectable Parity"),
        "smi.ecc.volatile.sram_uncorrectable_parity",
        "count",
        Lower,
        "Parity errors of on-chip memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/volatile/sram_uncorrectable_secded",
        (ECC, "Volatile", "SRAM Uncorrectable SEC-DED"),
        "smi.ecc.volatile.sram_uncorrectable_secded",
        "count",
        Lower,
        "Double-bit errors of on-chip memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/volatile/dram_correctable",
        (ECC, "Volatile", "DRAM Correctable"),
        "smi.ecc.volatile.dram_correctable",
        "count",
        Lower,
        "Corrected errors of device memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/volatile/dram_uncorrectable",
        (ECC, "Volatile", "DRAM Uncorrectable"),
        "smi.ecc.volatile.dram_uncorrectable",
        "count",
        Lower,
        "Uncorrected errors of device memory since the driver was loaded",
    ),
    rule(
        "ecc_errors/aggregate/sram_correctable",
        (ECC, "Aggregate", "SRAM Correctable"),
        "smi.ecc.aggregate.sram_correctable",
        "count",
        Lower,
        "Corrected errors of on-chip memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/sram_uncorrectable",
        (ECC, "Aggregate", "SRAM Uncorrectable"),
        "smi.ecc.aggregate.sram_uncorrectable",
        "count",
        Lower,
        "Uncorrected errors of on-chip memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/sram_uncorrectable_parity",
        (ECC, "Aggregate", "SRAM Uncorrectable Parity"),
        "smi.ecc.aggregate.sram_uncorrectable_parity",
        "count",
        Lower,
        "Parity errors of on-chip memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/sram_uncorrectable_secded",
        (ECC, "Aggregate", "SRAM Uncorrectable SEC-DED"),
        "smi.ecc.aggregate.sram_uncorrectable_secded",
        "count",
        Lower,
        "Double-bit errors of on-chip memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/dram_correctable",
        (ECC, "Aggregate", "DRAM Correctable"),
        "smi.ecc.aggregate.dram_correctable",
        "count",
        Lower,
        "Corrected errors of device memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/dram_uncorrectable",
        (ECC, "Aggregate", "DRAM Uncorrectable"),
        "smi.ecc.aggregate.dram_uncorrectable",
        "count",
        Lower,
        "Uncorrected errors of device memory over the lifetime of the GPU",
    ),
    rule(
        "ecc_errors/aggregate/sram_threshold_exceeded",
        (ECC, "Aggregate", "SRAM Threshold Exceeded"),
        "smi.ecc.sram_threshold_exceeded",
        "1",
        Lower,
        "1 if the number of errors of on-chip memory exceeds the limit for replacement, else 0",
    ),
    rule(
        "ecc_errors/unrepairable_memory",
        (ECC, "", "Unrepairable Memory"),
        "smi.ecc.unrepairable_memory",
        "1",
        Lower,
        "1 if memory cannot be repaired, else 0",
    ),
    rule(
        "ecc_errors/channel_repair_pending",
        (ECC, "", "Channel Repair Pending"),
        "smi.ecc.channel_repair_pending",
        "1",
        Lower,
        "1 if a memory channel awaits repair, else 0",
    ),
    rule(
        "ecc_errors/tpc_repair_pending",
        (ECC, "", "TPC Repair Pending"),
        "smi.ecc.tpc_repair_pending",
        "1",
        Lower,
        "1 if a processing cluster awaits repair, else 0",
    ),
    rule(
        "remapped_rows/remapped_row_corr",
        (ROWS, "", "Correctable Error"),
        "smi.remapped_rows.correctable",
        "count",
        Lower,
        "Rows remapped because of corrected errors",
    ),
    rule(
        "remapped_rows/remapped_row_unc",
        (ROWS, "", "Uncorrectable Error"),
        "smi.remapped_rows.uncorrectable",
        "count",
        Lower,
        "Rows remapped because of uncorrected errors",
    ),
    rule(
        "remapped_rows/remapped_row_pending",
        (ROWS, "", "Pending"),
        "smi.remapped_rows.pending",
        "1",
        Lower,
        "1 if a row awaits remapping, which needs a reset, else 0",
    ),
    rule(
        "remapped_rows/remapped_row_failure",
        (ROWS, "", "Remapping Failure Occurred"),
        "smi.remapped_rows.failed",
        "1",
        Lower,
        "1 if remapping a row failed, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_gpu_idle",
        (REASONS, "", "Idle"),
        "smi.throttle.idle",
        "1",
        NONE,
        "1 if the clocks are low because the GPU is idle, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_sw_power_cap",
        (REASONS, "", "SW Power Cap"),
        "smi.throttle.sw_power_cap",
        "1",
        NONE,
        "1 if the power limit reduces the clocks, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_hw_slowdown",
        (REASONS, "", "HW Slowdown"),
        "smi.throttle.hw_slowdown",
        "1",
        Lower,
        "1 if the hardware reduces the clocks because of heat or power, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown",
        (REASONS, "HW Slowdown", "HW Thermal Slowdown"),
        "smi.throttle.hw_thermal",
        "1",
        Lower,
        "1 if the hardware reduces the clocks because of heat, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown",
        (REASONS, "HW Slowdown", "HW Power Brake Slowdown"),
        "smi.throttle.hw_power_brake",
        "1",
        Lower,
        "1 if the power supply requests lower clocks, else 0",
    ),
    rule(
        "clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown",
        (REASONS, "", "SW Thermal Slowdown"),
        "smi.throttle.sw_thermal",
        "1",
        Lower,
        "1 if the driver reduces the clocks because of heat, else 0",
    ),
    rule(
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
        ("PCI", "PCIe Generation", "Current"),
        "smi.pcie.generation",
        "generation",
        Better::Exact,
        "Current generation of the PCIe link; an idle GPU may lower it",
    ),
    rule(
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
        ("PCI", "PCIe Generation", "Max"),
        "smi.pcie.generation.max",
        "generation",
        Better::Exact,
        "Highest generation of the PCIe link that GPU and slot support",
    ),
    rule(
        "pci/pci_gpu_link_info/link_widths/current_link_width",
        ("PCI", "Link Width", "Current"),
        "smi.pcie.width",
        "lanes",
        Better::Exact,
        "Current width of the PCIe link",
    ),
    rule(
        "pci/pci_gpu_link_info/link_widths/max_link_width",
        ("PCI", "Link Width", "Max"),
        "smi.pcie.width.max",
        "lanes",
        Better::Exact,
        "Largest width of the PCIe link",
    ),
    rule(
        "pci/replay_counter",
        ("PCI", "", "Replays Since Reset"),
        "smi.pcie.replays",
        "count",
        Lower,
        "Packets retransmitted over PCIe since the last reset",
    ),
    rule("clocks/sm_clock", ("Clocks", "", "SM"), "smi.clock.sm", "MHz", NONE, "SM clock"),
    rule("clocks/mem_clock", ("Clocks", "", "Memory"), "smi.clock.memory", "MHz", NONE, "Memory clock"),
    rule(
        "temperature/gpu_temp",
        ("Temperature", "", "GPU Current Temp"),
        "smi.temperature.gpu",
        "C",
        NONE,
        "Temperature of the GPU",
    ),
    rule(
        "temperature/memory_temp",
        ("Temperature", "", "Memory Current Temp"),
        "smi.temperature.memory",
        "C",
        NONE,
        "Temperature of the memory",
    ),
    rule(
        "gpu_power_readings/instant_power_draw",
        ("GPU Power Readings", "", "Instantaneous Power Draw"),
        "smi.power.now",
        "W",
        NONE,
        "Power of the GPU at this instant",
    ),
    rule(
        "gpu_power_readings/average_power_draw",
        ("GPU Power Readings", "", "Average Power Draw"),
        "smi.power.average",
        "W",
        NONE,
        "Average power of the GPU over the last second",
    ),
    rule(
        "gpu_power_readings/power_draw",
        ("GPU Power Readings", "", "Power Draw"),
        "smi.power",
        "W",
        NONE,
        "Power of the GPU, as drivers before 555 print it",
    ),
    rule(
        "gpu_power_readings/current_power_limit",
        ("GPU Power Readings", "", "Current Power Limit"),
        "smi.power.limit",
        "W",
        Better::Exact,
        "Power limit",
    ),
];

/// The metrics of the rules, for the registry.
pub(super) const METRICS: [MetricDefinition; RULES.len()] = {
    let mut metrics = [RULES[0].metric; RULES.len()];
    let mut at = 0;
    while at < RULES.len() {
        metrics[at] = RULES[at].metric;
        at += 1;
    }
    metrics
};

/// The rules by the length of a name, in their order. Most names that are not read have another length.
type RulesByName = BTreeMap<usize, Vec<&'static FieldRule>>;

fn rules(name: impl Fn(&FieldRule) -> &'static str) -> RulesByName {
    let mut rules = RulesByName::new();
    for rule in &RULES {
        rules.entry(name(rule).len()).or_default().push(rule);
    }
    rules
}

/// Rules for this XML element.
pub(super) fn with_element(name: &str) -> impl Iterator<Item = &'static FieldRule> {
    static KNOWN: LazyLock<RulesByName> = LazyLock::new(|| rules(element));
    KNOWN
        .get(&name.len())
        .into_iter()
        .flatten()
        .copied()
        .filter(move |rule| rule.xml.ends_with(name) && element(rule) == name)
}

fn element(rule: &FieldRule) -> &'static str {
    rule.xml.rsplit('/').next().unwrap_or_default()
}

/// The rules for a field with this name in the output of `nvidia-smi -q`.
pub(super) fn with_name(name: &str) -> impl Iterator<Item = &'static FieldRule> {
    static KNOWN: LazyLock<RulesByName> = LazyLock::new(|| rules(|rule| rule.name));
    KNOWN.get(&name.len()).into_iter().flatten().copied().filter(move |rule| rule.name == name)
}

/// Whether the name of an XML element equals a rule's name, `ours`, or that name's form in another driver version.
pub(super) fn same(ours: &str, printed: &str) -> bool {
    ours == printed
        || ours == "clocks_event_reasons" && printed == "clocks_throttle_reasons"
        || ours == "gpu_power_readings" && printed == "power_readings"
}

/// Whether the name of a section equals a rule's name, `ours`, or that name's form in another driver version.
pub(super) fn same_section(ours: &str, printed: &str) -> bool {
    ours == printed
        || ours == REASONS && printed == "Clocks Throttle Reasons"
        || ours == "GPU Power Readings" && printed == "Power Readings"
}

/// Whether the rule is a throttle reason in this section: depending on the driver, some reasons are below `HW
/// Slowdown` or next to it.
pub(super) fn is_reason(rule: &FieldRule, part: &str) -> bool {
    rule.section == REASONS && (part.is_empty() || part == "HW Slowdown")
}

/// The rule of a throttle reason, by the name that drivers before 535 print.
pub(super) fn throttle_rule(name: &str) -> Option<&'static FieldRule> {
    let reason = name.strip_prefix("clocks_throttle_reason_")?;
    RULES
        .iter()
        .find(|rule| rule.xml.strip_prefix("clocks_event_reasons/clocks_event_reason_") == Some(reason))
}
