//! Properties of every reading. cargo-fuzz and the unit tests check them with the same function.

/// Reads any bytes and checks the properties of every reading. The first byte selects the format, or its detection if no format has
/// this number; the second byte is the number of bytes that each read returns.
///
/// # Panics
///
/// Panics if a parser panics, or its reading is invalid or depends on the division of the input into pieces.
pub fn holds(input: &[u8]) {
    let [format, piece, log @ ..] = input else { return };
    let read = |log: &mut dyn std::io::Read| match measure::FORMATS.get(usize::from(*format)) {
        Some(format) => measure::read_as(format, log).unwrap(),
        None => measure::read(log).unwrap(),
    };
    let reading = read(&mut &*log);
    assert_eq!(
        read(&mut Pieces(log, usize::from(*piece).max(1))),
        reading,
        "the reading depends on the division of the input into pieces"
    );
    for metric in &reading.metrics {
        assert!(metric.value.is_none_or(f64::is_finite), "{metric:?}");
        assert_eq!(metric.value.is_none(), metric.unmeasurable.is_some(), "{metric:?}");
        assert!(metric.line > 0, "{metric:?}");
    }
    assert!(reading.findings.iter().all(|finding| finding.text.chars().count() <= 400));
    for half in
        reading.tables.iter().flat_map(|table| &table.rows).flat_map(|row| [row.out_of_place, row.in_place])
    {
        assert!(
            half.is_none_or(|half| [half.time_us, half.algbw, half.busbw]
                .iter()
                .all(|value| value.is_finite()))
        );
    }
}

/// A reader of the slice that returns at most the stated number of bytes per read.
struct Pieces<'a>(&'a [u8], usize);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        let (piece, rest) = self.0.split_at(count);
        buffer[..count].copy_from_slice(piece);
        self.0 = rest;
        Ok(count)
    }
}
