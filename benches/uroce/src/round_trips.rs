//! Timing of round trips.

use std::io;
use std::time::Instant;

use crate::figures::median;

/// Round trips whose time is taken at once: reading the clock costs as much as a short one.
const BATCH: usize = 50;

/// Half the median time of a round trip, in microseconds.
pub fn ping_pong(count: usize, mut round_trip: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..count.div_ceil(BATCH).max(3) {
        let begin = Instant::now();
        for _ in 0..BATCH {
            round_trip()?;
        }
        times.push(begin.elapsed().as_secs_f64() * 1e6 / BATCH as f64 / 2.0);
    }
    Ok(median(&mut times))
}
