//! Checks of requests when they are posted: finds what is wrong with them, whether or not the device notices.

use ibverbs_abi::*;

use super::post::Post;
use super::{Qp, SendRequest};
use crate::diagnose::check::list;
use crate::diagnose::check::state::type_name;
use crate::diagnose::check::{binding, gid, key};
use crate::diagnose::finding::{Finding, Kind, Outcome};
use crate::diagnose::rules::Rule;

/// Flags of verbs.h for a request.
const FLAGS: u32 =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
/// The longest message (9.7.1.1).
const MAX_MESSAGE: u64 = 1 << 31;

/// Whether a queue pair of this type has the operation (specification, table 44).
fn has_operation(kind: ibv_qp_type, opcode: u32) -> bool {
    match (kind, opcode) {
        (IBV_QPT_UD, IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_TSO) => true,
        (
            IBV_QPT_UD,
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
            | IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_CMP_AND_SWP
            | IBV_WR_ATOMIC_FETCH_AND_ADD,
        ) => false,
        (
            IBV_QPT_UC,
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD,
        ) => false,
        // Others are a matter of the device.
        _ => true,
    }
}

fn is_atomic(opcode: u32) -> bool {
    matches!(
        opcode,
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
    )
}

/// Whether `opcode` is one of verbs.h.
fn is_known(opcode: u32) -> bool {
    matches!(
        opcode,
        0..=IBV_WR_DRIVER1 | IBV_WR_FLUSH | IBV_WR_ATOMIC_WRITE
    )
}

/// Whether a request looks like memory that was never set.
fn looks_unset(qp: &Qp, request: &SendRequest) -> bool {
    !is_known(request.opcode) || list::is_over(request.num_sge, qp.cap.max_send_sge)
}

impl Post<'_> {
    /// Whether an address handle leads to this host, and this queue pair has no receive.
    fn reaches_nothing_here(&self, ah: usize) -> bool {
        let srq = self.all.srqs.get(&self.qp.srq);
        let receives = srq.map_or(&self.qp.receives, |srq| &srq.receives);
        let is_known = self.qp.srq == 0 || srq.is_some();
        is_known && receives.has_none() && self.all.ahs.is_local(ah)
    }

    /// The first mistake of each request.
    pub(super) fn check_requests(&self, requests: &[SendRequest]) -> Vec<Finding> {
        let qp = self.qp;
        let of = |(at, request): (usize, &SendRequest)| {
            let finding = |rule| {
                self.finding(rule, Outcome::Called)
                    .with("operation", request.operation())
                    .with("wr_id", request.wr_id)
            };
            by_type(qp, request, &finding)
                .or_else(|| not_asked_for(qp, request, &finding))
                .or_else(|| of_arguments(request, &finding))
                .or_else(|| self.of_keys(request, &finding))
                .or_else(|| self.of_datagram(request, &finding))
                .or_else(|| without_data(request, &finding))
                .or_else(|| (at > 0).then(|| not_filled_in(request, &finding))?)
                .map(|found| {
                    SendRequest::before(requests, at).noted(found, looks_unset(qp, request))
                })
        };
        requests.iter().enumerate().filter_map(of).collect()
    }

    /// Checks a request that binds a window or invalidates a key.
    fn of_keys(
        &self,
        request: &SendRequest,
        finding: &impl Fn(Rule) -> Finding,
    ) -> Option<Finding> {
        if request.mw_type == IBV_MW_TYPE_1 {
            let what = format!(
                "the request (wr_id {}) binds a memory window of type 1",
                request.wr_id
            );
            return Some(finding(Rule::Argument).with_texts(
                what,
                "requests bind windows of type 2; those of type 1 have ibv_bind_mw",
                "allocate the window with IBV_MW_TYPE_2, or call ibv_bind_mw",
            ));
        }
        let regions = &self.all.mrs;
        let bound = request.binding.filter(|to| to.length > 0);
        if let Some((to, region)) = bound.and_then(|to| Some((to, regions.get(to.region)?))) {
            let (what, why, todo) = binding::wrong(region, (to.addr, to.length), to.access)?;
            return Some(finding(Rule::Argument).with_texts(what, why, todo));
        }
        if request.opcode != IBV_WR_LOCAL_INV {
            return None;
        }
        let region = regions.by_rkey(self.qp.context, request.invalidates)?;
        Some(invalidates_region(
            finding(Rule::Argument),
            request.invalidates,
            &key::region(region),
        ))
    }

    fn of_datagram(
        &self,
        request: &SendRequest,
        finding: &impl Fn(Rule) -> Finding,
    ) -> Option<Finding> {
        let (qp, pds) = (self.qp, &self.all.pds);
        // The address of one that was built is looked for when it is complete.
        if qp.kind != IBV_QPT_UD || request.is_built && request.ah == 0 {
            return None;
        }
        if request.ah == 0 {
            let found = finding(Rule::NullObject);
            return Some(found.with("member", "wr.ud.ah").with("kind", "AH"));
        }
        let pd = self.all.ahs.pd_of(request.ah);
        if pd.is_none() && self.all.is_gone(Kind::Ah, request.ah) {
            let found = finding(Rule::DeadObject);
            return Some(found.with_object("wr.ud.ah", Kind::Ah, request.ah));
        }
        let pd = pd?;
        if pd != qp.pd && !pds.are_same(pd, qp.pd) {
            let (of_ah, of_qp) = (pds.base(pd), pds.base(qp.pd));
            let found = finding(Rule::AhPd).with("ah_pd", format!("{of_ah:#x}"));
            return Some(found.with("qp_pd", format!("{of_qp:#x}")));
        }
        let group = self.all.ahs.group_of(request.ah);
        if let Some(group) = group.filter(|_| request.remote_qpn != MULTICAST) {
            let found = finding(Rule::Argument);
            return Some(to_no_group(
                found,
                request,
                &gid::address(&group).to_string(),
            ));
        }
        if request.remote_qpn == 0 {
            return Some(to_no_queue_pair(finding(Rule::Argument), request.wr_id));
        }
        if request.remote_qpn == qp.number && self.reaches_nothing_here(request.ah) {
            return Some(finding(Rule::ToItself).with("qpn", format!("{:#x}", qp.number)));
        }
        if sends_own_qkey(qp.qkey, request.remote_qkey) {
            return Some(of_own_qkey(finding(Rule::Argument), request, qp.qkey));
        }
        let length = request.length();
        let is_one_packet = qp.port_mtu != 0 && request.opcode != IBV_WR_TSO;
        (is_one_packet && length > qp.port_mtu.into()).then(|| {
            finding(Rule::DatagramTooLong)
                .with("length", length)
                .with("mtu", qp.port_mtu)
        })
    }
}

/// The number of the queue pair that datagrams to a multicast group are for (10.5.2).
const MULTICAST: u32 = 0xff_ffff;

/// Whether a datagram has the Q_Key of its own queue pair in place of one that the request names: that one
/// has the highest bit (10.2.5). With no other bit it is meant.
fn sends_own_qkey(own: u32, remote: u32) -> bool {
    const OWN: u32 = 1 << 31;
    remote & OWN != 0 && remote != OWN && remote != own
}

fn of_own_qkey(finding: Finding, request: &SendRequest, own: u32) -> Finding {
    finding.with_texts(
        format!(
            "remote_qkey of the datagram (wr_id {}) is {:#x}, and so the Q_Key that is sent is that of this \
             queue pair, {own:#x}",
            request.wr_id, request.remote_qkey
        ),
        "a remote_qkey with the highest bit stands for the queue pair's own Q_Key: such keys are for \
         privileged programs",
        "use a Q_Key without the highest bit at the receiver and in wr.ud.remote_qkey; or give both queue \
         pairs the same one",
    )
}

/// A datagram to a multicast group, and to the number of one queue pair.
fn to_no_group(finding: Finding, request: &SendRequest, group: &str) -> Finding {
    finding.with_texts(
        format!(
            "the datagram (wr_id {}) goes to the multicast group {group}, and to the queue pair {:#x}",
            request.wr_id, request.remote_qpn
        ),
        "datagrams to a group are for the queue pair 0xffffff: with another number each receiver drops \
         them, and the request completes without an error",
        "set wr.ud.remote_qpn to 0xffffff (librdmacm: ud.qp_num of the event RDMA_CM_EVENT_MULTICAST_JOIN)",
    )
}

/// A datagram to the queue pair 0, which only the subnet manager's packets have.
fn to_no_queue_pair(finding: Finding, wr_id: u64) -> Finding {
    finding.with_texts(
        format!(
            "the datagram (wr_id {wr_id}) is for the queue pair 0: wr.ud.remote_qpn was not set"
        ),
        "no queue pair of a program has this number, so the datagram is dropped, and the request \
             completes without an error",
        "set wr.ud.remote_qpn to qp_num of the peer's queue pair, which the peer has to send",
    )
}

/// A SEND or WRITE with a scatter/gather list of which nothing is used.
fn without_data(request: &SendRequest, finding: &impl Fn(Rule) -> Finding) -> Option<Finding> {
    let (how, todo) = match request.opcode {
        IBV_WR_SEND | IBV_WR_RDMA_WRITE | IBV_WR_RDMA_READ if request.list_is_unused => (
            "sg_list is set, and num_sge is 0",
            "set num_sge to the number of elements of sg_list",
        ),
        IBV_WR_SEND if request.is_built && request.sges.is_empty() && !request.inline => (
            "no setter was called after ibv_wr_send",
            "call ibv_wr_set_sge or ibv_wr_set_inline_data after the operation",
        ),
        _ => return None,
    };
    Some(finding(Rule::NoData).with("how", how).with("todo", todo))
}

/// A request behind others of which every member is 0, as behind the end of an array.
fn not_filled_in(request: &SendRequest, finding: &impl Fn(Rule) -> Finding) -> Option<Finding> {
    let is_zero = request.opcode == 0
        && request.wr_id == 0
        && request.flags == 0
        && request.sges.is_empty()
        && !request.is_built
        && request
            .remote
            .is_some_and(|of| of.addr == 0 && of.rkey == 0);
    is_zero.then(|| {
        finding(Rule::NoData)
            .with("how", "it is behind another one, and all its members are 0")
            .with(
                "todo",
                "set next of the request before it to NULL: it points to a request that was not filled in, \
                 perhaps behind the last of an array",
            )
    })
}

/// The key of a memory region is to be invalidated.
pub(super) fn invalidates_region(finding: Finding, rkey: u32, region: &str) -> Finding {
    finding
        .with_texts(
            format!("the key {rkey:#x}, which is to be invalidated, is that of the memory region {region}"),
            "the key of a region that ibv_reg_mr has made is valid until ibv_dereg_mr; only those of memory \
             windows of type 2 can be invalidated",
            "bind a window to the region, and invalidate its rkey; or use SEND, and deregister the region",
        )
}

/// Operations that the type of the queue pair does not have.
fn by_type(qp: &Qp, request: &SendRequest, finding: &impl Fn(Rule) -> Finding) -> Option<Finding> {
    (!has_operation(qp.kind, request.opcode)).then(|| {
        let has = match qp.kind {
            IBV_QPT_UD => "SEND only",
            _ => "SEND and RDMA WRITE only",
        };
        finding(Rule::OpcodeType)
            .with("type", type_name(qp.kind))
            .with("has", has)
    })
}

/// The flag of ibv_create_qp_ex that allows an operation, and its name.
fn send_op(opcode: u32) -> Option<(u64, &'static str)> {
    macro_rules! flags {
        ($($opcode:ident $flag:ident)+) => {
            match opcode {
                $($opcode => Some(($flag.into(), stringify!($flag))),)+
                _ => None,
            }
        };
    }
    flags! {
        IBV_WR_RDMA_WRITE IBV_QP_EX_WITH_RDMA_WRITE
        IBV_WR_RDMA_WRITE_WITH_IMM IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        IBV_WR_SEND IBV_QP_EX_WITH_SEND
        IBV_WR_SEND_WITH_IMM IBV_QP_EX_WITH_SEND_WITH_IMM
        IBV_WR_RDMA_READ IBV_QP_EX_WITH_RDMA_READ
        IBV_WR_ATOMIC_CMP_AND_SWP IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        IBV_WR_ATOMIC_FETCH_AND_ADD IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        IBV_WR_LOCAL_INV IBV_QP_EX_WITH_LOCAL_INV
        IBV_WR_BIND_MW IBV_QP_EX_WITH_BIND_MW
        IBV_WR_SEND_WITH_INV IBV_QP_EX_WITH_SEND_WITH_INV
        IBV_WR_TSO IBV_QP_EX_WITH_TSO
        IBV_WR_FLUSH IBV_QP_EX_WITH_FLUSH
        IBV_WR_ATOMIC_WRITE IBV_QP_EX_WITH_ATOMIC_WRITE
    }
}

/// Operations that an extended queue pair was not created for.
fn not_asked_for(
    qp: &Qp,
    request: &SendRequest,
    finding: &impl Fn(Rule) -> Finding,
) -> Option<Finding> {
    let (flag, name) = send_op(request.opcode).filter(|_| request.is_built && qp.send_ops != 0)?;
    (qp.send_ops & flag == 0).then(|| {
        let what = format!(
            "the {} (wr_id {}) is built by a function of ibv_wr_*, and send_ops_flags of the queue pair \
             lacks {name}",
            request.operation(),
            request.wr_id
        );
        let why = "only the functions of the operations in send_ops_flags are there: on other devices the \
                   pointer is NULL, and the program ends";
        finding(Rule::Argument)
            .with_texts(what, why, format!("add {name} to send_ops_flags of ibv_create_qp_ex"))
    })
}

/// Flags, lists and lengths.
fn of_arguments(request: &SendRequest, finding: &impl Fn(Rule) -> Finding) -> Option<Finding> {
    let argument = |what: String, why: &'static str, todo: &'static str| {
        Some(finding(Rule::Argument).with_texts(what, why, todo))
    };
    let wr_id = request.wr_id;
    let length = request.length();
    if !is_known(request.opcode) {
        return argument(
            format!(
                "the opcode of the request (wr_id {wr_id}) is {}, which verbs.h does not have",
                request.opcode
            ),
            "the member may not have been initialised",
            "set the whole request to zero at first, and opcode to one of enum ibv_wr_opcode",
        );
    }
    if request.flags & !FLAGS != 0 {
        let found = finding(Rule::UnknownBits).with("member", "send_flags");
        let found = found.with("value", format!("{:#x}", request.flags));
        return Some(found.with("bits", format!("{:#x}", request.flags & !FLAGS)));
    }
    if request.list_is_null {
        let found = finding(Rule::NullObject).with("member", "sg_list");
        return Some(found.with("kind", "scatter/gather list"));
    }
    let reads = request.returns_data();
    if request.inline && reads {
        return argument(
            format!("the request (wr_id {wr_id}) is a READ or an atomic, and has IBV_SEND_INLINE"),
            "inline data is sent with the request, and these operations receive data",
            "remove IBV_SEND_INLINE",
        );
    }
    if is_atomic(request.opcode) && length != 8 {
        return argument(
            format!("the buffer of the atomic operation (wr_id {wr_id}) has {length} bytes"),
            "an atomic operation returns the eight bytes that were there before",
            "set the length of its scatter/gather element to 8",
        );
    }
    let remote = request.remote.filter(|_| is_atomic(request.opcode));
    if let Some(remote) = remote.filter(|remote| remote.addr % 8 != 0) {
        return Some(finding(Rule::AtomicUnaligned).with("addr", format!("{:#x}", remote.addr)));
    }
    if length > MAX_MESSAGE {
        return argument(
            format!("the request (wr_id {wr_id}) has {length} bytes"),
            "a message has at most 2^31 bytes, and max_msg_sz of ibv_query_port",
            "send it in several messages, and check the lengths: a negative one becomes a huge one",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{qp_mut, receive, request, rules, shadow_with_qp};
    use super::*;
    use crate::diagnose::shadow::{Receive, Remote};

    fn judge(change: impl FnOnce(&mut SendRequest)) -> Vec<Rule> {
        let shadow = shadow_with_qp(IBV_QPS_RTS);
        let mut wr = request(1, 7);
        change(&mut wr);
        let post = Post::of(&shadow, 30, "ibv_post_send").unwrap();
        rules(&post.check_requests(&[wr]))
    }

    #[test]
    fn requests() {
        assert_eq!(judge(|_| ()), []);
        assert_eq!(judge(|wr| wr.flags = 1 << 9), [Rule::UnknownBits]);
        assert_eq!(judge(|wr| wr.list_is_null = true), [Rule::NullObject]);
        let atomic = |addr, length| {
            judge(|wr| {
                wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                wr.sges[0].length = length;
                wr.remote = Some(Remote {
                    addr,
                    rkey: 8,
                    length: Some(8),
                });
            })
        };
        assert_eq!(atomic(0x1000, 8), []);
        assert_eq!(atomic(0x1001, 8), [Rule::AtomicUnaligned]);
        assert_eq!(atomic(0x1000, 4), [Rule::Argument]);
        let read = |wr: &mut SendRequest| {
            wr.opcode = IBV_WR_RDMA_READ;
            wr.inline = true;
        };
        assert_eq!(judge(read), [Rule::Argument]);
    }

    #[test]
    fn operations_of_types() {
        assert!(has_operation(IBV_QPT_RC, IBV_WR_RDMA_READ));
        assert!(!has_operation(IBV_QPT_UC, IBV_WR_RDMA_READ));
        assert!(has_operation(IBV_QPT_UC, IBV_WR_RDMA_WRITE));
        assert!(!has_operation(IBV_QPT_UD, IBV_WR_RDMA_WRITE));
        assert!(has_operation(IBV_QPT_UD, IBV_WR_SEND));
    }

    #[test]
    fn overlapping_receives() {
        let at = |id, addr| {
            let mut receive = receive(id, 7);
            receive.sges[0].addr = addr;
            receive
        };
        let shadow = |others: Vec<Receive>, vary: bool| {
            let mut shadow = shadow_with_qp(IBV_QPS_RTS);
            let qp = qp_mut(&mut shadow);
            qp.receives.post(others);
            qp.receives.finish(None);
            // It is its own peer.
            qp.connection.receives = true;
            qp.connection.dest_qpn = 17;
            let digests = if vary { [5, 6] } else { [5, 5] };
            let sent = digests.map(|digest| SendRequest {
                digest,
                ..request(1, 7)
            });
            qp.sends.record(Vec::from(sent));
            shadow
        };
        let judge = |others: Vec<Receive>, vary: bool| {
            let found = shadow(others, vary).received(30, &at(1, 0x1000));
            rules(&found)
        };
        assert_eq!(judge(vec![at(2, 0x1010)], true), []);
        assert_eq!(judge(vec![at(2, 0x100f)], false), [Rule::ReceivesOverlap]);
        // The same buffer: it may be meant.
        assert_eq!(judge(vec![at(2, 0x1000)], false), []);
        assert_eq!(judge(vec![at(2, 0x1000)], true), [Rule::ReceivesOverlap]);
        let many = (0..20).map(|id| at(id, 0x1000)).collect();
        assert_eq!(judge(many, true), []);
        // The other message comes later.
        let mut later = shadow(vec![at(2, 0x1000)], false);
        assert_eq!(later.received(30, &at(1, 0x1000)), None);
        let qp = qp_mut(&mut later);
        qp.receives.finish(None);
        let other = SendRequest {
            digest: 6,
            ..request(1, 7)
        };
        qp.sends.record([other]);
        assert!(later.received(30, &at(2, 0x1000)).is_some());
    }
}
