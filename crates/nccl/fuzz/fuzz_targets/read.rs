//! For any bytes, reading terminates and returns only measured numbers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let reading = nccl::read_bytes(log);
    for row in reading.tables.iter().flat_map(|table| &table.rows) {
        let halves = [row.out_of_place, row.in_place];
        assert!(halves.iter().any(Option::is_some));
        for half in halves.into_iter().flatten() {
            assert!([half.time_us, half.algbw, half.busbw].iter().all(|value| value.is_finite()));
        }
    }
});
