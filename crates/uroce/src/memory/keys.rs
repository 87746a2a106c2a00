//! L_Keys and R_Keys that a peer cannot guess.

use crate::random::random;

/// A random key whose 24-bit index is not `taken`. Its index is never 0: programs take the key 0 for
/// "none". Of 2^24 indices `max_mr` and `max_mw` use few, so the loop ends after few draws.
pub fn new_key(taken: impl Fn(u32) -> bool) -> u32 {
    loop {
        let key = random();
        if key >> 8 != 0 && !taken(key >> 8) {
            return key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bit is set in half of the keys, and changes from one key to the next in half of the cases.
    #[test]
    fn keys_are_unpredictable() {
        let keys: Vec<u32> = (0..2001).map(|_| new_key(|_| false)).collect();
        let flips: Vec<u32> = keys.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
        let steps = keys.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let mut all: Vec<u32> = steps.collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 1990, "steps that repeat");
        for bit in 0..32 {
            for numbers in [&keys[1..], &flips] {
                let set = numbers.iter().filter(|n| *n >> bit & 1 == 1).count();
                // Seven standard deviations.
                assert!(
                    (1000 - 157..=1000 + 157).contains(&set),
                    "bit {bit}: {set} of 2000"
                );
            }
        }
    }
}
