//! Memory budget of a log: one limit in bytes for all stored data.
//!
//! Separate limits would have to be small, or their sum would be large. With one budget, any mixture of data has the same maximum memory.
//! Less important data has a lower limit, so that it never displaces more important data.

use model::measurement::{Column, Device, PartialHalf, ProcessTimes, Row};

const MIB: usize = 1 << 20;
/// Allocator overhead per allocation, bytes.
const OVERHEAD: usize = 16;

/// Kinds of stored data, least important first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BudgetKind {
    Devices,
    Times,
    Rows,
    /// Tables and their errors.
    Runs,
}

impl BudgetKind {
    /// Maximum total size at which data of this kind is accepted.
    fn limit(self) -> usize {
        match self {
            BudgetKind::Devices => 5 * MIB,
            BudgetKind::Times => 10 * MIB,
            BudgetKind::Rows => 13 * MIB,
            // The rest of the 16 MiB is for the current line and its parts.
            BudgetKind::Runs => 14 * MIB,
        }
    }
}

/// Counts the stored bytes.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: usize,
    /// Whether data was rejected.
    pub(crate) left_out: bool,
}

impl Budget {
    /// Reserves bytes; returns `false` and reserves nothing if the limit would be exceeded.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize, kind: BudgetKind) -> bool {
        let fits = self.used + bytes <= kind.limit();
        if fits {
            self.used += bytes;
        }
        self.left_out |= !fits;
        fits
    }

    /// Releases bytes of dropped data.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Reserves room for one more item; returns `false` if the limit would be exceeded.
    #[must_use]
    pub(crate) fn room<T>(&mut self, items: &mut Vec<T>, kind: BudgetKind) -> bool {
        if items.len() < items.capacity() {
            return true;
        }
        let old = own_bytes(items);
        let size = size_of::<T>();
        // Reallocation needs both copies of a vector, which would halve the capacity. A long table is therefore reallocated to most of the
        // remaining budget while its first copy is small.
        let left = kind.limit().saturating_sub(self.used) / 4 * 3 / size;
        let most =
            if matches!(kind, BudgetKind::Rows) && old > MIB { left.saturating_sub(items.len()) } else { 0 };
        for more in [most, items.len() / 2, items.len() / 8].map(|more| more.max(4)) {
            let new = (items.len() + more) * size + OVERHEAD;
            if self.used + new <= kind.limit() {
                items.reserve_exact(more);
                self.used = self.used - old.min(self.used) + new;
                return true;
            }
        }
        self.left_out = true;
        false
    }

    /// Releases the bytes of a vector that is not kept.
    pub(crate) fn forget<T>(&mut self, items: Vec<T>) {
        self.release(own_bytes(&items));
    }

    /// Releases the unused capacity of a vector that will not grow.
    pub(crate) fn shrink<T>(&mut self, items: &mut Vec<T>) {
        let (old, new) = (own_bytes(items), items.len() * size_of::<T>() + OVERHEAD);
        if self.used + new <= BudgetKind::Runs.limit() {
            items.shrink_to_fit();
            self.release(old - own_bytes(items).min(old));
        }
    }
}

/// Bytes of the vector itself.
fn own_bytes<T>(items: &Vec<T>) -> usize {
    if items.capacity() == 0 { 0 } else { items.capacity() * size_of::<T>() + OVERHEAD }
}

/// Heap bytes of a text.
pub(crate) fn text(text: &str) -> usize {
    // An allocation has at least two words of payload and one of overhead.
    if text.is_empty() { 0 } else { (text.len() + OVERHEAD).max(32) }
}

fn optional(found: Option<&String>) -> usize {
    found.map_or(0, |found| text(found))
}

/// Heap bytes of a row, without the times of its processes.
pub(crate) fn row(row: &Row) -> usize {
    let processes = if row.processes.is_some() { size_of::<ProcessTimes>() + OVERHEAD } else { 0 };
    let columns = |partial: &PartialHalf| partial.unread.capacity() * size_of::<Column>();
    let partial = |partial: &PartialHalf| size_of::<PartialHalf>() + columns(partial) + 2 * OVERHEAD;
    let partial = row.partial.as_deref().map_or(0, partial);
    text(&row.dtype) + optional(row.redop.as_ref()) + optional(row.timestamp.as_ref()) + processes + partial
}

/// Heap bytes of a Rank line, including the rank's number while ranks are counted and the host's entry in the list of
/// hosts.
pub(crate) fn device(device: &Device, new_host: bool) -> usize {
    let known = if new_host { text(&device.host) + 2 * size_of::<Vec<u8>>() } else { 0 };
    let own = text(&device.host) + optional(device.bus_id.as_ref()) + optional(device.name.as_ref());
    own + known + size_of::<u32>()
}

/// Heap bytes of the times of processes.
pub(crate) fn times(times: &ProcessTimes) -> usize {
    let half = |processes: &Vec<_>| own_bytes(processes) + processes.iter().map(own_bytes).sum::<usize>();
    half(&times.out_of_place_us) + half(&times.in_place_us)
}
