//! Meanings of Xid and SXid codes.
//!
//! Sources: NVIDIA's Xid catalogue (`docs.nvidia.com/deploy/xid-errors`) and the SXid tables of NVIDIA's Fabric Manager
//! guide, compared with the catalogues of leptonai/gpud (Apache-2.0), in our own words. The severity follows the catalogue's resolution. A
//! code whose resolution is to restart or check the application is software. A code that reports memory, links, power or a lost device is
//! hardware. A code whose resolution is to ignore it, or that hardware and software can cause, is unknown.

use model::metric::Severity::{self, Configuration, Hardware, Software, Unknown};

/// Xid codes with severity and meaning, in ascending order.
const XIDS: [(u32, Severity, &str); 109] = [
    (8, Software, "GPU stopped processing"),
    (11, Software, "invalid push buffer"),
    (13, Software, "graphics engine exception, mostly by an application"),
    (25, Software, "invalid push buffer"),
    (31, Software, "GPU memory page fault, mostly by an application"),
    (32, Software, "invalid push buffer"),
    (37, Software, "driver firmware error"),
    (38, Software, "driver firmware error"),
    (39, Unknown, "copy engine exception"),
    (40, Unknown, "copy engine exception"),
    (41, Unknown, "copy engine exception"),
    (43, Software, "GPU stopped processing: a channel was reset for an application"),
    (44, Unknown, "graphics engine fault during a context switch"),
    (45, Unknown, "preemptive cleanup after an earlier error"),
    (46, Unknown, "GPU stopped processing"),
    (48, Hardware, "double-bit ECC error"),
    (54, Hardware, "auxiliary power is not connected"),
    (56, Hardware, "display engine error"),
    (57, Hardware, "memory link training failed"),
    (58, Hardware, "memory error"),
    (60, Unknown, "video processor exception"),
    (61, Unknown, "internal microcontroller breakpoint"),
    (62, Hardware, "internal microcontroller halt"),
    (63, Unknown, "a memory row was remapped or a page retired"),
    (64, Hardware, "remapping a memory row or retiring a page failed"),
    (65, Unknown, "video encoder exception"),
    (66, Software, "illegal access by the driver"),
    (67, Software, "illegal access by the driver"),
    (68, Unknown, "video decoder exception"),
    (69, Software, "graphics engine class error"),
    (70, Unknown, "copy engine error"),
    (71, Unknown, "copy engine error"),
    (72, Unknown, "copy engine error"),
    (73, Unknown, "video encoder exception"),
    (74, Hardware, "NVLink error"),
    (75, Unknown, "copy engine error"),
    (76, Unknown, "copy engine error"),
    (77, Unknown, "copy engine error"),
    (78, Configuration, "vGPU start error"),
    (79, Hardware, "GPU has fallen off the bus"),
    (80, Hardware, "corrupted data was sent to the GPU"),
    (81, Hardware, "VGA subsystem error"),
    (82, Unknown, "JPEG engine error"),
    (83, Unknown, "video decoder error"),
    (84, Unknown, "video decoder error"),
    (85, Unknown, "copy engine error"),
    (86, Unknown, "optical flow engine exception"),
    (88, Unknown, "video decoder error"),
    (89, Unknown, "video decoder error"),
    (92, Unknown, "high rate of single-bit ECC errors"),
    (93, Unknown, "configuration memory wear limit"),
    (94, Hardware, "contained uncorrectable memory error"),
    (95, Hardware, "uncontained uncorrectable memory error"),
    (96, Unknown, "video decoder error"),
    (97, Unknown, "video decoder error"),
    (98, Unknown, "video decoder error"),
    (99, Unknown, "JPEG engine error"),
    (100, Unknown, "JPEG engine error"),
    (101, Unknown, "JPEG engine error"),
    (102, Unknown, "JPEG engine error"),
    (103, Unknown, "JPEG engine error"),
    (104, Unknown, "JPEG engine error"),
    (105, Unknown, "JPEG engine error"),
    (106, Unknown, "test message of the management interface"),
    (107, Unknown, "test message of the management interface"),
    (109, Unknown, "context switch timeout"),
    (110, Hardware, "security fault"),
    (119, Hardware, "timeout of the GPU system processor (GSP)"),
    (120, Hardware, "error of the GPU system processor (GSP)"),
    (121, Unknown, "corrected error of the chip-to-chip link"),
    (122, Hardware, "SPI read failure"),
    (123, Hardware, "SPI write failure"),
    (124, Hardware, "configuration memory access failure"),
    (125, Hardware, "configuration memory is corrupt"),
    (126, Unknown, "copy engine error"),
    (127, Unknown, "copy engine error"),
    (128, Unknown, "copy engine error"),
    (129, Unknown, "copy engine error"),
    (130, Unknown, "copy engine error"),
    (131, Unknown, "copy engine error"),
    (132, Unknown, "copy engine error"),
    (133, Unknown, "copy engine error"),
    (134, Unknown, "copy engine error"),
    (135, Unknown, "copy engine error"),
    (136, Hardware, "link training failed"),
    (137, Software, "NVLink privilege error, mostly by an application"),
    (139, Unknown, "optical flow engine error"),
    (140, Hardware, "unrecovered ECC error"),
    (141, Unknown, "CUDA fast path error"),
    (142, Unknown, "video encoder error"),
    (143, Hardware, "GPU initialization error"),
    (144, Hardware, "NVLink error (SAW)"),
    (145, Hardware, "NVLink error (RLW)"),
    (146, Hardware, "NVLink error (TLW)"),
    (147, Hardware, "NVLink error (TREX)"),
    (148, Hardware, "NVLink error (NVLPW_CTRL)"),
    (149, Hardware, "NVLink error (NETIR)"),
    (150, Hardware, "NVLink error (MSE)"),
    (151, Unknown, "key rotation error"),
    (154, Hardware, "the required recovery action of the GPU changed"),
    (155, Hardware, "NVLink error defined by software"),
    (156, Hardware, "a hardware resource was retired"),
    (157, Hardware, "retiring a hardware resource failed"),
    (158, Hardware, "fatal timeout of the GPU"),
    (160, Unknown, "a memory channel was retired"),
    (161, Hardware, "retiring a memory channel failed"),
    (167, Hardware, "fatal PCIe timeout"),
    (168, Hardware, "errors in the write protected region"),
    (169, Hardware, "internal microcontroller halt"),
];

pub(crate) fn xid(code: u32) -> (Severity, &'static str) {
    let found = XIDS.binary_search_by_key(&code, |(code, _, _)| *code).ok();
    found.map_or((Unknown, "code without a known meaning"), |at| (XIDS[at].1, XIDS[at].2))
}

/// Meaning of an SXid code of an NVSwitch. `fatal` is the severity in the kernel line.
pub(crate) fn sxid(code: u32, fatal: bool) -> (Severity, &'static str) {
    let meaning = match code {
        10_001..=10_003 => "host interface error",
        10_004 => "the NVSwitch became too hot",
        10_005 => "the NVSwitch cooled down",
        11_012 | 11_021..=11_023 | 12_021 | 12_023 | 15_008 | 15_011 | 24_001..=24_003 => {
            "single-bit ECC error"
        }
        19_049 | 19_055 | 19_057 | 19_059 | 19_062 | 19_065 | 19_068 | 19_071 => "single-bit ECC error",
        11_013 | 11_018 | 11_019 | 12_022 | 12_024 | 15_009 | 15_012 | 19_047..=19_070 | 24_004..=24_006 => {
            "double-bit ECC error"
        }
        11_000..=11_999 => "ingress error",
        12_000..=12_999 => "egress error",
        14_017 => "timeout of a transaction",
        15_000..=15_999 => "routing error",
        19_084 => "heartbeat timeout of a link",
        20_001 => "a link retransmitted data",
        20_009 => "short-term error rate of a link",
        20_012 => "broken or inconsistent connection",
        20_034 => "a link went down",
        22_000..=22_999 => "error of the link controller",
        23_000..=23_999 => "NVLink buffer or packet error",
        24_007 => "timeout of a transaction",
        _ => "code without a known meaning",
    };
    let always = matches!(code, 10_003 | 12_020 | 22_003 | 22_011 | 23_001..=23_017);
    (if fatal || always { Hardware } else { Unknown }, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_found() {
        assert!(XIDS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(xid(79), (Hardware, "GPU has fallen off the bus"));
        assert_eq!(xid(31).0, Software);
        assert_eq!(xid(9999), (Unknown, "code without a known meaning"));
        assert_eq!(sxid(20_034, true), (Hardware, "a link went down"));
        assert_eq!(sxid(12_028, false).0, Unknown);
        assert_eq!(sxid(22_003, false).0, Hardware);
    }
}
