//! Requests whose data is not in place when they are executed: it is still to come from a READ or an atomic
//! operation; or one that returns its data onto the memory that it accesses.

use ibverbs_abi::*;

use super::post::Post;
use super::{SendRequest, Sge};
use crate::diagnose::finding::{Finding, Outcome};
use crate::diagnose::rules::Rule;

/// The number of outstanding requests, the latest, that are examined.
const MAX_EXAMINED: usize = 64;

/// Whether two ranges of memory, each an address and a length, have bytes in common.
fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    let end = |(addr, length): (u64, u64)| u128::from(addr) + u128::from(length);
    u128::from(a.0) < end(b) && u128::from(b.0) < end(a)
}

fn range(sge: &Sge) -> (u64, u64) {
    (sge.addr, sge.length.into())
}

/// Whether the device reads memory of this process for the request.
fn sends_memory(request: &SendRequest) -> bool {
    let sends = matches!(
        request.opcode,
        IBV_WR_SEND
            | IBV_WR_SEND_WITH_IMM
            | IBV_WR_SEND_WITH_INV
            | IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
    );
    sends && !request.inline
}

/// The element of `later` that the READ or atomic operation `earlier` writes to.
fn awaited<'a>(earlier: &SendRequest, later: &'a SendRequest) -> Option<&'a Sge> {
    let is_written = |sge: &&Sge| {
        let mut written = earlier.sges.iter();
        written.any(|of| overlap(range(of), range(sge)))
    };
    later.sges.iter().find(is_written)
}

impl Post<'_> {
    /// A request that sends the data of a READ or an atomic operation which is outstanding: without a fence
    /// it does not wait for that data (10.8.3.3).
    pub(super) fn unfenced(&self, requests: &[SendRequest]) -> Option<Finding> {
        let reads_now = || requests.iter().any(SendRequest::returns_data);
        if !self.qp.sends.ever_reads() && !reads_now() {
            return None;
        }
        let of = |(at, request): (usize, &SendRequest)| {
            if !sends_memory(request) || request.flags & IBV_SEND_FENCE != 0 {
                return None;
            }
            let before = requests[..at]
                .iter()
                .rev()
                .chain(self.qp.sends.iter().rev());
            // What is before a fence has its data by then.
            let open = before
                .take(MAX_EXAMINED)
                .take_while(|of| of.flags & IBV_SEND_FENCE == 0);
            let mut reads = open.filter(|of| of.returns_data());
            let (read, sge) = reads.find_map(|read| Some((read, awaited(read, request)?)))?;
            Some(
                self.finding(Rule::UnfencedRead, Outcome::Called)
                    .with("operation", request.operation())
                    .with("wr_id", request.wr_id)
                    .with("addr", format!("{:#x}", sge.addr))
                    .with("read", read.operation())
                    .with("first", read.wr_id),
            )
        };
        requests.iter().enumerate().find_map(of)
    }

    /// A request whose peer is in this process, and that returns data onto a part of the memory it accesses:
    /// an atomic operation undoes itself. READs and WRITEs of the very same memory are loopback tests.
    pub(super) fn onto_itself(&self, requests: &[SendRequest]) -> Option<Finding> {
        let of = |request: &SendRequest| {
            let remote = request.remote.filter(|_| request.returns_data())?;
            let length = remote.length.unwrap_or(request.length());
            let is_same = |sge: &Sge| {
                range(sge) == (remote.addr, length) && request.opcode == IBV_WR_RDMA_READ
            };
            let meets = |sge: &&Sge| overlap(range(sge), (remote.addr, length)) && !is_same(sge);
            let sge = request.sges.iter().find(meets)?;
            let peer = self.all.peer(self.qp)?;
            let region = self.all.mrs.by_rkey(peer.context, remote.rkey);
            region.filter(|region| region.is_memory)?;
            let operation = request.operation();
            let what = format!(
                "the {operation} (wr_id {}) returns its data to {:#x}, which is a part of the {length} bytes \
                 at {:#x} that it accesses",
                request.wr_id, sge.addr, remote.addr
            );
            let found = self.finding(Rule::Argument, Outcome::Called);
            Some(found.with("wr_id", request.wr_id).with_texts(
                what,
                "the old value overwrites the new one",
                "give the scatter/gather element memory of its own",
            ))
        };
        requests.iter().find_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mr, request, rules, shadow_with_qp};
    use super::super::{Remote, Shadow};
    use super::*;

    fn at(wr_id: u64, opcode: u32, addr: u64, flags: u32) -> SendRequest {
        let mut request = request(wr_id, 7);
        request.opcode = opcode;
        request.flags = flags;
        (request.sges[0].addr, request.sges[0].length) = (addr, 64);
        request
    }

    fn unfenced(posted: Vec<SendRequest>, list: &[SendRequest]) -> Vec<Rule> {
        let mut shadow: Shadow = shadow_with_qp(IBV_QPS_RTS);
        shadow.qps.change(30, |qp| qp.sends.record(posted));
        let post = Post::of(&shadow, 30, "ibv_post_send").unwrap();
        rules(&post.unfenced(list))
    }

    #[test]
    fn data_of_an_outstanding_read() {
        let read = at(1, IBV_WR_RDMA_READ, 0x1000, 0);
        let send = |addr, flags| at(2, IBV_WR_SEND, addr, flags);
        let judge = |list: &[SendRequest]| unfenced(vec![read.clone()], list);
        assert_eq!(judge(&[send(0x103f, 0)]), [Rule::UnfencedRead]);
        assert_eq!(judge(&[send(0x1040, 0)]), [], "behind it");
        assert_eq!(judge(&[send(0x1000, IBV_SEND_FENCE)]), []);
        let mut inline = send(0x1000, 0);
        inline.inline = true;
        assert_eq!(
            judge(&[inline]),
            [],
            "its data is of an earlier time, and meant"
        );
        assert_eq!(judge(&[at(2, IBV_WR_RDMA_READ, 0x1000, 0)]), []);
        let fenced = at(3, IBV_WR_RDMA_WRITE, 0x9000, IBV_SEND_FENCE);
        assert_eq!(judge(&[fenced, send(0x1000, 0)]), [], "a fence is between");
        assert_eq!(unfenced(vec![], &[send(0x1000, 0)]), []);
        let one_list = [read.clone(), send(0x1000, 0)];
        assert_eq!(unfenced(vec![], &one_list), [Rule::UnfencedRead]);
    }

    #[test]
    fn ranges() {
        assert!(overlap((0, 8), (7, 1)) && !overlap((0, 8), (8, 1)));
        assert!(!overlap((4, 0), (4, 0)) && overlap((u64::MAX - 7, 8), (u64::MAX, 1)));
    }

    #[test]
    fn data_onto_the_memory_that_is_accessed() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        let mut region = mr(7, 8);
        region.is_memory = true;
        shadow.mrs.add(40, region);
        // It is its own peer.
        shadow.qps.change(30, |qp| {
            qp.connection.receives = true;
            qp.connection.dest_qpn = 17;
        });
        let judge = |opcode, addr, to| {
            let mut request = at(1, opcode, addr, 0);
            request.remote = Some(Remote {
                addr: to,
                rkey: 8,
                length: None,
            });
            let post = Post::of(&shadow, 30, "ibv_post_send").unwrap();
            rules(&post.onto_itself(&[request]))
        };
        let atomic = IBV_WR_ATOMIC_FETCH_AND_ADD;
        assert_eq!(judge(atomic, 0x1000, 0x1000), [Rule::Argument]);
        assert_eq!(judge(atomic, 0x1000, 0x1040), []);
        assert_eq!(judge(IBV_WR_RDMA_READ, 0x1000, 0x1000), []);
        assert_eq!(judge(IBV_WR_RDMA_READ, 0x1000, 0x1020), [Rule::Argument]);
        assert_eq!(judge(IBV_WR_RDMA_WRITE, 0x1000, 0x1020), []);
    }
}
