//! How much of a log is kept in memory: one allowance of bytes for everything that is.
//!
//! Separate caps would have to be small each, or their sum would be large. With one allowance any mixture ends at the
//! same peak, and what matters less is refused earlier, so that it never crowds out what matters more.

use model::measurement::{Column, Device, PartialHalf, ProcessTimes, Row};

const MIB: usize = 1 << 20;
/// What an allocator adds to a piece of memory.
const OVERHEAD: usize = 16;

/// What is kept, from what matters least to what matters most.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Devices,
    Times,
    Rows,
    /// Tables, and what went wrong in them.
    Runs,
}

impl Kind {
    /// Up to here the whole may grow for the sake of this kind.
    fn limit(self) -> usize {
        match self {
            Kind::Devices => 5 * MIB,
            Kind::Times => 10 * MIB,
            Kind::Rows => 13 * MIB,
            // What is left of 16 MiB is for the line being read, and for what it is taken apart into.
            Kind::Runs => 14 * MIB,
        }
    }
}

/// Counts the bytes that are kept.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: usize,
    /// Something was refused.
    pub(crate) left_out: bool,
}

impl Budget {
    /// Takes bytes; takes none of them and says no when that would be too many.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize, kind: Kind) -> bool {
        let fits = self.used + bytes <= kind.limit();
        if fits {
            self.used += bytes;
        }
        self.left_out |= !fits;
        fits
    }

    /// Gives bytes back whose owner is gone.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Makes room for one more item; says no when there is none to be made.
    #[must_use]
    pub(crate) fn room<T>(&mut self, items: &mut Vec<T>, kind: Kind) -> bool {
        if items.len() < items.capacity() {
            return true;
        }
        let old = spine(items);
        let size = size_of::<T>();
        // While a vector moves it is there twice, which would halve what can be kept: a table that is already long moves
        // into most of what is left, while its first copy is small.
        let left = kind.limit().saturating_sub(self.used) / 4 * 3 / size;
        let most = if matches!(kind, Kind::Rows) && old > MIB { left.saturating_sub(items.len()) } else { 0 };
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

    /// Gives back what a vector was counted for that is not kept after all.
    pub(crate) fn forget<T>(&mut self, items: Vec<T>) {
        self.give_back(spine(&items));
    }

    /// Gives the room back that a vector which will not grow does not use.
    pub(crate) fn shrink<T>(&mut self, items: &mut Vec<T>) {
        let (old, new) = (spine(items), items.len() * size_of::<T>() + OVERHEAD);
        if self.used + new <= Kind::Runs.limit() {
            items.shrink_to_fit();
            self.give_back(old - spine(items).min(old));
        }
    }
}

/// Bytes of the vector itself.
fn spine<T>(items: &Vec<T>) -> usize {
    if items.capacity() == 0 { 0 } else { items.capacity() * size_of::<T>() + OVERHEAD }
}

/// Bytes of a text that are not in its owner.
pub(crate) fn text(text: &str) -> usize {
    // Allocators have no smaller pieces than two words of payload and one of their own.
    if text.is_empty() { 0 } else { (text.len() + OVERHEAD).max(32) }
}

fn optional(found: Option<&String>) -> usize {
    found.map_or(0, |found| text(found))
}

/// Bytes of a row that are not in its vector, the times of its processes aside.
pub(crate) fn row(row: &Row) -> usize {
    let processes = if row.processes.is_some() { size_of::<ProcessTimes>() + OVERHEAD } else { 0 };
    let columns = |partial: &PartialHalf| partial.unread.capacity() * size_of::<Column>();
    let partial = |partial: &PartialHalf| size_of::<PartialHalf>() + columns(partial) + 2 * OVERHEAD;
    let partial = row.partial.as_deref().map_or(0, partial);
    text(&row.dtype) + optional(row.redop.as_ref()) + optional(row.timestamp.as_ref()) + processes + partial
}

/// Bytes of a Rank line that are not in its vector, those of its number while the ranks are counted, and those of its
/// host among the known ones.
pub(crate) fn device(device: &Device, new_host: bool) -> usize {
    let known = if new_host { text(&device.host) + 2 * size_of::<Vec<u8>>() } else { 0 };
    let own = text(&device.host) + optional(device.bus_id.as_ref()) + optional(device.name.as_ref());
    own + known + size_of::<u32>()
}

/// Bytes of the times of processes.
pub(crate) fn times(times: &ProcessTimes) -> usize {
    let half = |processes: &Vec<_>| spine(processes) + processes.iter().map(spine).sum::<usize>();
    half(&times.out_of_place_us) + half(&times.in_place_us)
}
