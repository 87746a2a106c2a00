//! The QP lookup cache of an inbox: recently used queue pairs, without the lock of the table and without a
//! change of their reference counts.

use std::sync::Arc;

use super::queue_pair::QueuePair;

/// A power of two.
const PLACES: usize = 16;

/// Recent queue pairs, each at the place that follows from its number.
#[derive(Default)]
pub struct QpCache {
    /// Empty, or [`PLACES`] long.
    places: Vec<Option<Arc<QueuePair>>>,
}

impl QpCache {
    /// Without memory it keeps none.
    pub fn new() -> QpCache {
        let mut places = Vec::new();
        if places.try_reserve_exact(PLACES).is_ok() {
            places.resize_with(PLACES, || None);
        }
        QpCache { places }
    }

    #[inline]
    fn place(&mut self, qpn: u32) -> Option<&mut Option<Arc<QueuePair>>> {
        self.places.get_mut(qpn as usize % PLACES)
    }

    /// Takes a queue pair that packets to this number are for.
    #[inline]
    pub fn take(&mut self, qpn: u32) -> Option<Arc<QueuePair>> {
        self.place(qpn)?.take_if(|qp| qp.takes(qpn))
    }

    /// Keeps a queue pair, as long as packets reach it.
    #[inline]
    pub fn put(&mut self, qp: Arc<QueuePair>) {
        if let Some(place) = self.place(qp.qpn).filter(|_| qp.takes(qp.qpn)) {
            *place = Some(qp);
        }
    }

    /// Drops a queue pair.
    pub fn forget(&mut self, qp: &QueuePair) {
        if let Some(place) = self.place(qp.qpn) {
            place.take_if(|kept| core::ptr::eq(&**kept, qp));
        }
    }
}
