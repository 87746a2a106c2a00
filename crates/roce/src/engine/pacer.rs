//! Pacing of packets that no congestion window limits: read responses, and the requests of unreliable
//! services. They leave in bursts with a pause after each.

use std::time::Duration;

use super::{Service, Time};

/// The pacer of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    burst: Burst,
    /// The start of the current burst.
    burst_start: Time,
    /// Sent in the current burst.
    packets: u32,
    bytes: usize,
}

/// The limits of a burst; whichever is reached first ends it.
#[derive(Clone, Copy, Debug)]
struct Burst {
    packets: u32,
    bytes: usize,
    /// From the start of a burst to the start of the next.
    interval: Duration,
}

/// For read responses. The peer requested them, and `max_dest_rd_atomic` limits the requests.
const READ_RESPONSES: Burst = Burst {
    packets: 128,
    bytes: 512 << 10,
    interval: Duration::from_micros(100),
};
/// For unreliable services, at the rate at which a process empties its socket. The socket's buffer
/// holds hardly more than a burst.
const UNRELIABLE: Burst = Burst {
    packets: 64,
    bytes: 64 << 10,
    interval: Duration::from_micros(50),
};

impl Pacer {
    /// The pacer of a queue pair's requests (UC, UD) or read responses (RC, XRC).
    pub fn new(service: Service) -> Pacer {
        Pacer {
            burst: match service {
                Service::Uc | Service::Ud => UNRELIABLE,
                Service::Rc | Service::XrcSend | Service::XrcRecv => READ_RESPONSES,
            },
            burst_start: Time(0),
            packets: 0,
            bytes: 0,
        }
    }

    /// Whether a packet may be sent now.
    pub fn may_send(&mut self, now: Time) -> bool {
        if now >= self.burst_start.after(self.burst.interval) {
            self.burst_start = now;
            self.packets = 0;
            self.bytes = 0;
        }
        !self.is_exhausted()
    }

    /// A packet of that many bytes was sent.
    pub fn on_sent(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// When the next packet may be sent; a time in the past if it may be sent now.
    pub fn resumes_at(&self) -> Time {
        if self.is_exhausted() {
            self.burst_start.after(self.burst.interval)
        } else {
            self.burst_start
        }
    }

    fn is_exhausted(&self) -> bool {
        self.packets >= self.burst.packets || self.bytes >= self.burst.bytes
    }
}
