//! For any bytes, the readers of the detected format and of each named format terminate and return only valid values. The unit tests check
//! the same property; the samples of the tests are a good corpus.
#![no_main]

#[path = "../../tests/all/fuzz/property.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::holds(input));
