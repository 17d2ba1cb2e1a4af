//! Minimum versions of drivers, firmware and libraries, with reasons and sources.

use std::cmp::Ordering;

/// Year and month in which the sources of the list were read.
pub const MINIMUMS_DATE: &str = "2026-11";

/// A minimum version. A version in `affected` is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// Component to which the versions belong.
    pub component: Component,
    /// First affected version, and the first fixed version after it: `("535", "535.309.01")`.
    pub affected: (&'static str, &'static str),
    /// Version to install.
    pub minimum: &'static str,
    /// Date of the source.
    pub date: &'static str,
    /// Consequence of an affected version.
    pub reason: &'static str,
    /// Page that states the versions.
    pub source: &'static str,
}

/// Component whose version the evidence or the log of a job contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Kernel module of the GPUs.
    Driver,
    /// Library of the collectives: the one that a node loads, or as printed by nccl-tests.
    Nccl,
    /// Programs that provide GPUs to containers.
    ContainerToolkit,
    /// Drivers of RDMA devices outside the kernel, by the version of the module `mlx5_core`.
    Ofed,
    /// Firmware of `ConnectX` and `BlueField`. Its first number is the device; the list has the numbers after it.
    Firmware,
}

impl Component {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Driver => "NVIDIA driver",
            Self::Nccl => "NCCL",
            Self::ContainerToolkit => "NVIDIA Container Toolkit",
            Self::Ofed => "mlx5_core of OFED",
            Self::Firmware => "ConnectX and BlueField firmware",
        }
    }

    /// The component whose version this setting of a node states.
    #[must_use]
    pub fn of_setting(name: &str) -> Option<Self> {
        match name {
            "nvidia" => Some(Self::Driver),
            "nccl" => Some(Self::Nccl),
            "container_toolkit" => Some(Self::ContainerToolkit),
            "mlx5_core" => Some(Self::Ofed),
            name if name.starts_with("infiniband/") && name.ends_with("/fw_ver") => Some(Self::Firmware),
            _ => None,
        }
    }

    /// Entries of this component whose affected versions include `value`; `None` if `value` is not a version.
    #[must_use]
    pub fn below(self, value: &str) -> Option<Vec<&'static Minimum>> {
        let mut version = Version::parse(value)?;
        if self == Self::Firmware {
            match version.0.as_slice() {
                [device, release @ ..] if release.len() == 2 && DEVICES.contains(device) => {
                    version = Version(release.to_vec());
                }
                // The firmware belongs to another vendor or device.
                _ => return Some(Vec::new()),
            }
        }
        let is_affected = |it: &&Minimum| {
            let bound = |text| Version::parse(text).unwrap_or_default();
            it.component == self && bound(it.affected.0) <= version && version < bound(it.affected.1)
        };
        Some(MINIMUMS.iter().filter(is_affected).collect())
    }
}

/// First numbers of firmware versions: ConnectX-5, 6, 6 Dx and DE, `BlueField`-2, ConnectX-6 Lx, 7, `BlueField`-3, ConnectX-8.
/// <https://docs.nvidia.com/networking/display/mftv4350/Supported-Adapter-Cards-Firmware-Versions>.
const DEVICES: [u64; 8] = [16, 20, 22, 24, 26, 28, 32, 40];

/// Numbers of a version. A missing number is 0: `24.10-3.2.5` equals `24.10-3.2.5.0`.
#[derive(Clone, Debug, Default)]
struct Version(Vec<u64>);

impl Version {
    /// `2.28.9+cuda13.0` is 2.28.9. A pre-release is not a version: its order is not defined by numbers.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().split('+').next()?;
        text.split(['.', '-']).map(|part| part.parse().ok()).collect::<Option<_>>().map(Self)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let count = self.0.len().max(other.0.len());
        let numbers = |version: &Self| {
            version.0.iter().copied().chain(std::iter::repeat(0)).take(count).collect::<Vec<_>>()
        };
        numbers(self).cmp(&numbers(other))
    }
}

const SEPTEMBER: (&str, &str) =
    ("2026-09-30", "https://github.com/NVIDIA/product-security/tree/main/2026/5861");
const MAY: (&str, &str) = ("2026-05-21", "https://github.com/NVIDIA/product-security/tree/main/2026/5821");
const JANUARY: (&str, &str) =
    ("2026-01-28", "https://github.com/NVIDIA/product-security/tree/main/2026/5747");
const CONNECTX: (&str, &str) =
    ("2026-06-30", "https://github.com/NVIDIA/product-security/tree/main/2026/5699");
const OFED: (&str, &str) = ("2025-07-16", "https://github.com/NVIDIA/product-security/tree/main/2025/5654");

const CODE: &str = "a user without privileges may execute code in the kernel (CVE-2026-47595 and others)";
const NO_FIX: &str = "the bulletin lists no fixed version of this branch and advises a newer branch (CVE-2026-47595 and others)";
const FIRMWARE: &str = "a user of a virtual function may execute code on the device (CVE-2025-23351)";
const VGT: &str =
    "a virtual machine may gain privileges and stop the traffic of its VLAN if VGT+ is used (CVE-2025-23263)";

const fn entry(
    component: Component,
    affected: (&'static str, &'static str),
    minimum: &'static str,
    (date, source): (&'static str, &'static str),
    reason: &'static str,
) -> Minimum {
    Minimum { component, affected, minimum, date, reason, source }
}

/// The minimum versions. A version may be below several entries; all of them are reported.
pub const MINIMUMS: &[Minimum] = &{
    use Component::{ContainerToolkit, Driver, Firmware, Nccl, Ofed};
    [
        entry(Driver, ("580", "580.178.04"), "580.178.04", SEPTEMBER, CODE),
        entry(Driver, ("595", "595.91.07"), "595.91.07", SEPTEMBER, CODE),
        entry(Driver, ("610", "610.57.04"), "610.57.04", SEPTEMBER, CODE),
        entry(Driver, ("615", "615.71.09"), "615.71.09", SEPTEMBER, CODE),
        entry(
            Driver,
            ("535", "535.309.01"),
            "535.309.01",
            MAY,
            "a user may execute code in the kernel through a use after free (CVE-2026-24187 and others)",
        ),
        entry(
            Driver,
            ("550", "550.163.01"),
            "550.163.01",
            ("2025-04-30", "https://github.com/NVIDIA/product-security/tree/main/2025/5630"),
            "a user without privileges may gain privileges (CVE-2025-23244)",
        ),
        entry(
            Driver,
            ("570", "570.211.01"),
            "570.211.01",
            JANUARY,
            "a user may execute code in the kernel through an integer overflow (CVE-2025-33219)",
        ),
        entry(
            Driver,
            ("590", "590.48.01"),
            "590.48.01",
            JANUARY,
            "a user may execute code in the kernel through an integer overflow (CVE-2025-33219)",
        ),
        entry(Driver, ("0", "580"), "580.178.04", SEPTEMBER, NO_FIX),
        entry(Driver, ("581", "595"), "595.91.07", SEPTEMBER, NO_FIX),
        entry(Driver, ("596", "610"), "610.57.04", SEPTEMBER, NO_FIX),
        entry(
            Nccl,
            ("2.28", "2.28.9"),
            "2.28.9",
            ("2025-11-10", "https://github.com/NVIDIA/nccl/releases/tag/v2.28.9-1"),
            "jobs of many nodes may hang: main thread and proxy thread reorder operations",
        ),
        entry(
            Nccl,
            ("2.28", "2.28.7"),
            "2.28.7",
            ("2025-10-17", "https://github.com/NVIDIA/nccl/releases/tag/v2.28.7-1"),
            "symmetric kernels may corrupt small messages",
        ),
        entry(
            Nccl,
            ("2.26", "2.27.3"),
            "2.27.3",
            ("2025-05-29", "https://github.com/NVIDIA/nccl/releases/tag/v2.27.3-1"),
            "ncclCommSplit may corrupt memory where resources are shared",
        ),
        entry(
            Nccl,
            ("2.26", "2.26.5"),
            "2.26.5",
            ("2025-04-22", "https://github.com/NVIDIA/nccl/releases/tag/v2.26.5-1"),
            "all-to-all patterns of more than 80 ranks may hang on multi-node NVLink",
        ),
        entry(
            Nccl,
            ("2.18", "2.18.3"),
            "2.18.3",
            ("2023-06-13", "https://github.com/NVIDIA/nccl/releases/tag/v2.18.3-1"),
            "trees with protocol LL128 corrupt data where each GPU has one NIC",
        ),
        entry(
            ContainerToolkit,
            ("0", "1.19.1"),
            "1.19.1",
            ("2026-06-30", "https://github.com/NVIDIA/product-security/tree/main/2026/5850"),
            "a container may execute code on its host through a race (CVE-2026-24260)",
        ),
        entry(
            ContainerToolkit,
            ("0", "1.17.8"),
            "1.17.8",
            ("2025-08-12", "https://github.com/NVIDIA/product-security/tree/main/2025/5659"),
            "a container may execute code on its host through a hook (CVE-2025-23266)",
        ),
        entry(Firmware, ("0", "35.8002"), "35.8002", CONNECTX, FIRMWARE),
        entry(Firmware, ("36", "39.8002"), "39.8002", CONNECTX, FIRMWARE),
        entry(Firmware, ("40", "43.8002"), "43.8002", CONNECTX, FIRMWARE),
        entry(Firmware, ("44", "46.3008"), "46.3008", CONNECTX, FIRMWARE),
        entry(Ofed, ("5.8", "5.8-7.0.6.1"), "5.8-7.0.6.1", OFED, VGT),
        entry(Ofed, ("23.10", "23.10-5.1.4.0"), "23.10-5.1.4.0", OFED, VGT),
        entry(Ofed, ("24.10", "24.10-3.2.5.0"), "24.10-3.2.5.0", OFED, VGT),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    fn minimums(component: Component, version: &str) -> Vec<&'static str> {
        component.below(version).unwrap().iter().map(|it| it.minimum).collect()
    }

    #[test]
    fn the_last_affected_version_is_below_the_minimum_and_the_fixed_one_is_not() {
        for it in MINIMUMS {
            let device = if it.component == Component::Firmware { "28." } else { "" };
            let fixed = format!("{device}{}", it.affected.1);
            let affected = it.component.below(&fixed).unwrap();
            assert!(!affected.contains(&it), "{it:?}");
            let mut numbers = Version::parse(&fixed).unwrap().0;
            while numbers.pop_if(|number| *number == 0).is_some() {}
            *numbers.last_mut().unwrap() -= 1;
            let before: Vec<_> = numbers.iter().map(u64::to_string).collect();
            let affected = it.component.below(&before.join(".")).unwrap();
            assert!(affected.contains(&it), "{it:?} {before:?}");
        }
    }

    #[test]
    fn each_branch_of_the_driver_has_its_own_minimum() {
        assert_eq!(minimums(Component::Driver, "580.159.04"), ["580.178.04"]);
        assert_eq!(minimums(Component::Driver, "580.178.04"), [""; 0]);
        assert_eq!(minimums(Component::Driver, "535.104.05"), ["535.309.01", "580.178.04"]);
        assert_eq!(minimums(Component::Driver, "570.211.01"), ["580.178.04"]);
        assert_eq!(minimums(Component::Driver, "615.71.09"), [""; 0]);
        assert_eq!(minimums(Component::Driver, "620.10"), [""; 0]);
    }

    #[test]
    fn firmware_is_compared_without_the_number_of_its_device() {
        assert_eq!(minimums(Component::Firmware, "28.39.1002"), ["39.8002"]);
        assert_eq!(minimums(Component::Firmware, "40.46.3008"), [""; 0]);
        assert_eq!(minimums(Component::Firmware, "229.2.52.0"), [""; 0], "another vendor");
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(minimums(Component::Ofed, "24.10-3.2.5"), [""; 0]);
        assert_eq!(minimums(Component::Ofed, "24.10-1.1.4"), ["24.10-3.2.5.0"]);
        assert_eq!(minimums(Component::Nccl, "2.28.10+cuda13.0"), [""; 0]);
        assert_eq!(minimums(Component::Nccl, "2.28.3+cuda13.0"), ["2.28.9", "2.28.7"]);
        for text in ["", "TempVersion", "1.19.0-rc.1", "580.", "99999999999999999999"] {
            assert_eq!(Component::Driver.below(text), None, "{text}");
        }
    }

    #[test]
    fn every_entry_has_a_dated_source() {
        for it in MINIMUMS {
            let date: Vec<_> = it.date.split('-').map(|part| part.parse::<u32>().unwrap()).collect();
            assert!(matches!(date[..], [2023..=2026, 1..=12, 1..=31]), "{it:?}");
            assert!(it.date[..7] <= *MINIMUMS_DATE && it.source.starts_with("https://"), "{it:?}");
            let version = |text| Version::parse(text).unwrap();
            assert!(version(it.affected.0) < version(it.affected.1), "{it:?}");
            assert!(version(it.affected.1) <= version(it.minimum), "{it:?}");
        }
    }
}
