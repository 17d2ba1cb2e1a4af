//! For any bytes, the readers of the detected format and of each named format terminate and return only finite values.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    // The first byte selects the format; the samples of the tests are a good corpus.
    let Some((first, log)) = log.split_first() else { return };
    let reading = match measure::FORMATS.get(usize::from(*first)) {
        Some(format) => measure::read_as(format, log).unwrap(),
        None => measure::read(log).unwrap(),
    };
    for metric in &reading.metrics {
        assert!(metric.value.is_none_or(f64::is_finite));
        assert_eq!(metric.value.is_none(), metric.unmeasurable.is_some());
        assert!(metric.line > 0);
    }
});
