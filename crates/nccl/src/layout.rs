//! Columns of a table, taken from its header line rather than from a fixed number of columns.

use crate::scan::Words;
use model::measurement;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfColumn {
    /// Time of one operation.
    Time,
    Algbw,
    Busbw,
    /// Copy bandwidth of the concurrent side work.
    CopyBw,
    /// Count of wrong elements, or N/A.
    Wrong,
    /// Largest relative error, or N/A.
    Error,
    IterationMin,
    IterationMax,
    IterationP99,
    IterationCv,
    /// A column of a later version: must be a number or N/A; ignored.
    Unknown,
}

/// Maximum number of columns of a half; a longer line is not a header.
const COLUMNS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halves {
    Both,
    OutOfPlace,
    InPlace,
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) redop: bool,
    pub(crate) root: bool,
    /// Power of ten from the printed time to microseconds: 3 for old versions with milliseconds.
    pub(crate) to_us: i32,
    /// Whether the bandwidths are not derived from the printed time (`-C`).
    pub(crate) cpu_time: bool,
    pub(crate) half: Vec<HalfColumn>,
    pub(crate) halves: Halves,
    pub(crate) timestamp: bool,
    /// Width of the last column of a half with its padding, if known.
    pub(crate) last_pitch: Option<usize>,
}

impl Layout {
    /// Number of halves of a row.
    pub(crate) fn count(&self) -> u8 {
        if self.halves == Halves::Both { 2 } else { 1 }
    }

    /// Placement of the half with this number.
    pub(crate) fn placement(&self, number: u8) -> measurement::Placement {
        match (self.halves, number) {
            (Halves::InPlace, _) | (_, 1..) => measurement::Placement::InPlace,
            _ => measurement::Placement::OutOfPlace,
        }
    }

    /// Reads a header line such as `#  size  count  type  redop  root  time  algbw  busbw #wrong ...`.
    ///
    /// `placement` is the single placement named by the line above, if any.
    pub(crate) fn from_header(line: &[u8], placement: Option<Halves>) -> Option<Layout> {
        let mut layout = Layout {
            redop: false,
            root: false,
            to_us: 0,
            cpu_time: false,
            half: Vec::with_capacity(8),
            halves: Halves::OutOfPlace,
            timestamp: false,
            last_pitch: None,
        };
        let (mut named_size, mut named_type) = (false, false);
        let mut halves = 0u8;
        let mut same = 0;
        for word in Words::new(line, 0) {
            let name = word.text;
            let bare = name.strip_prefix(b"#").unwrap_or(name);
            if !named_size {
                // Text before the first column is an external prefix.
                match bare {
                    b"size" | b"size(B)" => named_size = true,
                    b"bytes" => (named_size, layout.to_us) = (true, 3),
                    _ => {}
                }
                continue;
            }
            if let b"time" | b"cputime" | b"time(us)" = name {
                halves = halves.saturating_add(1);
                layout.cpu_time |= name == b"cputime";
                same = 0;
            }
            match name {
                b"type" if halves == 0 => named_type = true,
                b"redop" | b"op" if halves == 0 => layout.redop = true,
                b"root" if halves == 0 => layout.root = true,
                b"timestamp" => layout.timestamp = true,
                _ if halves == 0 => {}
                _ => {
                    let column = HalfColumn::named(bare);
                    if halves == 1 {
                        if layout.half.len() == COLUMNS {
                            return None;
                        }
                        layout.half.push(column);
                        layout.last_pitch = Some(word.pitch());
                    } else if layout.half.get(same) != Some(&column) {
                        return None;
                    }
                    same += 1;
                }
            }
        }
        layout.halves = match halves {
            1 => placement.filter(|&placement| placement != Halves::Both).unwrap_or(Halves::OutOfPlace),
            2 if same == layout.half.len() => Halves::Both,
            _ => return None,
        };
        let needed = [HalfColumn::Time, HalfColumn::Algbw, HalfColumn::Busbw];
        (named_type && layout.half.len() <= 16 && layout.half.starts_with(&needed)).then_some(layout)
    }

    /// The columns of rows without a header, derived from the number of values after the type and the
    /// reduction.
    ///
    /// Only unambiguous shapes are accepted. Since 2022 nccl-tests prints a root in every table; before 2022 it printed
    /// none for collectives without a root. The shapes of 11 and 17 values are newer than 2022, so they have a root.
    pub(crate) fn from_values(values: usize, milliseconds: bool, error: bool) -> Option<Layout> {
        use HalfColumn::{
            Algbw, Busbw, CopyBw, Error, IterationCv, IterationMax, IterationMin, IterationP99, Time,
        };
        let last = if error { Error } else { HalfColumn::Wrong };
        let (root, half) = match values {
            8 => (false, vec![Time, Algbw, Busbw, last]),
            9 => (true, vec![Time, Algbw, Busbw, last]),
            11 => (true, vec![Time, Algbw, Busbw, CopyBw, last]),
            17 => {
                (true, vec![Time, Algbw, Busbw, last, IterationMin, IterationMax, IterationP99, IterationCv])
            }
            _ => return None,
        };
        Some(Layout {
            redop: true,
            root,
            to_us: if milliseconds { 3 } else { 0 },
            cpu_time: false,
            half,
            halves: Halves::Both,
            timestamp: true,
            last_pitch: None,
        })
    }
}

impl HalfColumn {
    pub(crate) fn field(self) -> measurement::Column {
        match self {
            HalfColumn::Time => measurement::Column::TimeUs,
            HalfColumn::Algbw => measurement::Column::Algbw,
            HalfColumn::Busbw => measurement::Column::Busbw,
            HalfColumn::Wrong => measurement::Column::Wrong,
            _ => measurement::Column::Other,
        }
    }

    fn named(name: &[u8]) -> HalfColumn {
        match name {
            b"time" | b"cputime" | b"time(us)" => HalfColumn::Time,
            b"algbw" | b"algbw(GB/s)" => HalfColumn::Algbw,
            b"busbw" | b"busbw(GB/s)" => HalfColumn::Busbw,
            b"copybw" => HalfColumn::CopyBw,
            b"wrong" => HalfColumn::Wrong,
            b"error" | b"res" => HalfColumn::Error,
            b"i_min" => HalfColumn::IterationMin,
            b"i_max" => HalfColumn::IterationMax,
            b"i_p99" => HalfColumn::IterationP99,
            b"i_cv%" => HalfColumn::IterationCv,
            _ => HalfColumn::Unknown,
        }
    }
}

/// Reads the line above the header, `out-of-place    in-place`: the placements it names, if it contains no other text.
pub(crate) fn placement(line: &[u8]) -> Option<Halves> {
    let mut found = None;
    for word in Words::new(line, 0) {
        found = match (word.text, found) {
            (b"out-of-place", None) => Some(Halves::OutOfPlace),
            (b"in-place", None) => Some(Halves::InPlace),
            (b"in-place", Some(_)) => Some(Halves::Both),
            (b"#" | b"(+" | b"per-iteration)", found) => found,
            _ => return None,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_defines_the_columns() {
        let new = b"#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ";
        let layout = Layout::from_header(new, None).unwrap();
        assert_eq!((layout.redop, layout.root, layout.to_us, layout.count()), (true, true, 0, 2));
        assert_eq!(layout.half, [HalfColumn::Time, HalfColumn::Algbw, HalfColumn::Busbw, HalfColumn::Wrong]);
        assert_eq!(layout.last_pitch, Some(8));

        let old = b"#      bytes             N    type    root    time  algbw  busbw      res";
        let layout = Layout::from_header(old, None).unwrap();
        assert_eq!((layout.redop, layout.root, layout.to_us), (false, true, 3));
        assert_eq!(layout.halves, Halves::OutOfPlace);
    }

    #[test]
    fn an_incomplete_header_is_rejected() {
        assert_eq!(
            Layout::from_header(b"# size count type redop root time algbw busbw #wrong time algbw", None),
            None
        );
        assert_eq!(Layout::from_header(b"the algbw and busbw columns", None), None);
    }
}
