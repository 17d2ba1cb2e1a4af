//! Words of a row: valid forms and plausibility.

use crate::layout::Layout;
use crate::number::Number;

/// Maximum length of the name of a type or a reduction, bytes.
pub(crate) const NAME: usize = 16;

/// Whether a word may name a type or a reduction.
pub(crate) fn is_name(word: &[u8]) -> bool {
    let of_name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    word.len() <= NAME && word[0].is_ascii_lowercase() && word.iter().all(of_name)
}

/// A value in a column of a half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CellValue {
    Number(Number),
    NotAvailable,
    NotFinite,
}

/// Parses a word as a value of one placement, out-of-place or in-place.
pub(crate) fn value(word: &[u8]) -> Option<CellValue> {
    if let Some(number) = Number::parse(word) {
        return Some(CellValue::Number(number));
    }
    match word {
        b"N/A" => Some(CellValue::NotAvailable),
        b"inf" | b"-inf" | b"nan" | b"-nan" | b"nanf" | b"-nanf" => Some(CellValue::NotFinite),
        // rccl-tests appends `*` to an error above its threshold.
        [number @ .., b'*'] => Number::parse(number).map(CellValue::Number),
        _ => None,
    }
}

/// Whether two words are a date and a time, such as `2026-01-05 12:00:07`.
pub(crate) fn is_timestamp(date: &[u8], time: &[u8]) -> bool {
    let shaped = |text: &[u8], separator| {
        text.iter().enumerate().all(|(at, byte)| {
            let separates = matches!((text.len(), at), (10, 4 | 7) | (8, 2 | 5));
            if separates { *byte == separator } else { byte.is_ascii_digit() }
        })
    };
    date.len() == 10 && time.len() == 8 && shaped(date, b'-') && shaped(time, b':')
}

/// Whether the values have the form of printed ones, and the bandwidth equals size over time.
pub(crate) fn plausible(layout: &Layout, size: u64, printed: [Option<Number>; 3]) -> bool {
    let [Some(time), Some(algbw), Some(busbw)] = printed else { return false };
    if !time.looks_measured() || !algbw.looks_measured() || !busbw.looks_measured() {
        return false;
    }
    if layout.cpu_time {
        return true;
    }
    // Bytes per microsecond are MB/s.
    let at = |time_us: f64| if time_us > 0.0 { size as f64 / time_us / 1000.0 } else { f64::INFINITY };
    let slack = time.rounding(layout.to_us) * 1.01;
    let (slowest, fastest) =
        (at(time.scaled(layout.to_us) + slack), at((time.scaled(layout.to_us) - slack).max(0.0)));
    let rounding = algbw.rounding(0) * 1.01;
    // Early versions printed the bandwidth multiplied by (n-1)/n, which is at least one half.
    let printed = algbw.scaled(0);
    slowest * 0.5 - rounding <= printed && printed <= fastest + rounding
}
