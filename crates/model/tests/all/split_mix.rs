//! Numbers of the generator.

use model::SplitMix64;

#[test]
fn the_numbers_equal_those_of_the_reference_implementation() {
    // Output of Vigna's splitmix64.c (public domain) with the seed 1234567.
    let mut random = SplitMix64(1_234_567);
    let numbers = [random.number(), random.number(), random.number()];
    assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn random_numbers_and_indices_are_in_their_range() {
    let mut random = SplitMix64(0);
    for count in 1..1000 {
        assert!((0.0..1.0).contains(&random.part()));
        assert!(random.below(count) < count);
    }
}
