//! A cache of recent values, of fixed size.

/// Number of values of a set. With one value per set, two names of a log would often replace each other at each metric.
const WAYS: usize = 4;
/// Number of bits that select a set of values.
const BITS: u32 = 6;

/// Cache of values, keyed by the hash of their input. A new value replaces the oldest one of its set.
pub(crate) struct Recent<T>(Vec<[Option<(u64, T)>; WAYS]>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Recent<T> {
    /// Returns the cached value of this hash that `is` accepts. `is` must compare the text, because other texts may
    /// have the same hash.
    #[inline]
    pub(crate) fn get(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        let set = self.0.get(set_of(hash))?;
        set.iter().flatten().find_map(|(key, value)| (*key == hash && is(value)).then_some(value))
    }

    /// Replaces the oldest value of the hash's set. Equal hashes are not detected.
    pub(crate) fn insert(&mut self, hash: u64, value: T) {
        if self.0.is_empty() {
            self.0.resize_with(1 << BITS, || [const { None }; WAYS]);
        }
        let set = &mut self.0[set_of(hash)];
        set.rotate_right(1);
        set[0] = Some((hash, value));
    }
}

#[inline]
fn set_of(hash: u64) -> usize {
    // The upper bits of the product depend on all bits of the hash.
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_latest_values_of_a_set_are_found() {
        let mut recent = Recent::default();
        assert_eq!(recent.get(0, |_| true), None);
        // Six different hashes that select the same set.
        let alike = |value: u64| value << 40;
        let same_set: Vec<_> = (0..100_000).map(alike).filter(|hash| set_of(*hash) == 3).take(6).collect();
        for hash in &same_set {
            recent.insert(*hash, hash + 1);
        }
        for (at, hash) in same_set.iter().enumerate() {
            assert_eq!(recent.get(*hash, |_| true), (at >= 2).then_some(&(hash + 1)));
            assert_eq!(recent.get(*hash, |_| false), None);
        }
    }
}
