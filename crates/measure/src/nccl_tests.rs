//! nccl-tests and rccl-tests, read by the crate `nccl` into tables.

use crate::format::{Format, Reader};

pub(crate) const FORMAT: Format = Format {
    name: "nccl-tests",
    programs: "nccl-tests and rccl-tests since 2017, text and JSON; the measurements are tables; the warehouse also stores them as metrics (docs/WAREHOUSE.md)",
    end: "the line `Avg bus bandwidth`",
    unread: "see the crate `nccl`",
    metrics: &[],
    findings: &[],
    marks: &[
        &["# nccl-tests version"],
        &["# rccl-tests"],
        &["# nThread "],
        &["Collective test starting"],
        &["algbw", "busbw"],
        &["# Out of bounds values"],
        &["# Avg bus bandwidth"],
        &["\"average_bus_bandwi"],
        &["\"nccl_version\"", "\"results\""],
        &["\"alg_bw\"", "\"bus_bw\""],
    ],
    reader: Reader::Nccl,
};
