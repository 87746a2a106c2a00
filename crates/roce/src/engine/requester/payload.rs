//! The content of a request packet: extension headers and payload.

use super::{SendOp, Wqe};
use crate::wire::{Feth, HeaderWriter, Part, Reth};

/// Adds the extension headers of a packet of `wqe`. Returns the length of its payload in bytes.
#[inline(always)]
pub fn extend_headers(
    wqe: &Wqe,
    packet: u64,
    mtu: u32,
    part: Part,
    headers: &mut HeaderWriter<'_>,
) -> usize {
    let offset = ((packet - wqe.first) * u64::from(mtu)).min(wqe.len.into()) as u32;
    let remaining = wqe.len - offset;
    let starts = matches!(part, Part::First | Part::Only);
    let ends = matches!(part, Part::Last | Part::Only);
    headers.bth.solicited = wqe.wr.flags.solicited && ends && wqe.consumes_recv_wqe();
    let mut payload_len = 0;
    match wqe.wr.op {
        SendOp::Send => payload_len = mtu.min(remaining),
        SendOp::SendImm { imm } => {
            if ends {
                headers.imm(imm);
            }
            payload_len = mtu.min(remaining);
        }
        SendOp::SendInv { rkey } => {
            if ends {
                headers.ieth(rkey);
            }
            payload_len = mtu.min(remaining);
        }
        SendOp::Write { va, rkey } | SendOp::WriteImm { va, rkey, .. } => {
            let len = wqe.len;
            if starts {
                headers.reth(&Reth { va, rkey, len });
            }
            if let (SendOp::WriteImm { imm, .. }, true) = (wqe.wr.op, ends) {
                headers.imm(imm);
            }
            payload_len = mtu.min(remaining);
        }
        SendOp::Read { va, rkey } => {
            let limit = (wqe.request_end(packet, mtu) - packet) * u64::from(mtu);
            headers.reth(&Reth {
                va: va.wrapping_add(offset.into()),
                rkey,
                len: u64::from(remaining).min(limit) as u32,
            });
        }
        SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => {
            wqe.wr
                .op
                .atomic_eth()
                .iter()
                .for_each(|eth| headers.atomic(eth));
        }
        SendOp::AtomicWrite { va, rkey, .. } => {
            headers.reth(&Reth { va, rkey, len: 8 });
            payload_len = 8;
        }
        SendOp::Flush {
            va,
            rkey,
            len,
            placement,
            selectivity,
        } => {
            headers.feth(&Feth {
                placement,
                selectivity,
            });
            headers.reth(&Reth { va, rkey, len });
        }
        SendOp::LocalInv { .. } | SendOp::BindMw(_) => {}
    }
    payload_len as usize
}
