//! Writes the fragments of requests where the peer reads them.

use super::Sender;
use super::fragment::{FragmentWriter, HEAD_LEN};
use crate::engine::attributes::Attributes;
use crate::engine::emit::part_of;
use crate::engine::send_queue::{OpClass, Wqe};
use crate::engine::{Hca, LocalError, SendOp};
use crate::wire::{Feth, Operation, Part, Reth};

/// A fragment that was written.
pub(super) struct WrittenFragment {
    /// The length of the fragment in bytes.
    pub len: usize,
    /// The bytes of its payload.
    pub payload_len: u32,
    /// The fragment is the last one of its message.
    pub ends: bool,
}

impl Sender {
    /// [`Sender::write_fragment`] for any operation.
    #[inline(never)]
    pub(super) fn write_any(
        &self,
        wqe: &Wqe,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<WrittenFragment>, LocalError> {
        match wqe.operation() {
            Some(operation) => self.write_fragment(operation, wqe, attributes, hca, buffer),
            None => Ok(None),
        }
    }

    /// Writes the next fragment of a WQE.
    #[inline(always)]
    pub(super) fn write_fragment(
        &self,
        operation: Operation,
        wqe: &Wqe,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<WrittenFragment>, LocalError> {
        let left = match wqe.class() {
            OpClass::Acked => wqe.len - self.sent,
            OpClass::EmptyResponse if operation == Operation::AtomicWrite => 8,
            _ => 0,
        };
        let len = left.min(buffer.len().saturating_sub(HEAD_LEN) as u32);
        let (starts, ends) = (self.sent == 0, len == left);
        if starts && !ends {
            wqe.check_payload(hca)?;
        }
        let part = part_of(starts, ends);
        let to = (attributes.dest_qpn, self.next);
        let fragment = FragmentWriter::new(operation, part, to, self.sent, buffer);
        let Some(mut fragment) = fragment else {
            return Ok(None);
        };
        fragment.transport(attributes.config.service.transport());
        self.write_operands(wqe, part, &mut fragment);
        if let Some(payload) = fragment.payload(len as usize) {
            if !payload.is_empty() {
                wqe.read_payload(self.sent.into(), payload, hca)?;
            }
        }
        Ok(Some(WrittenFragment {
            len: fragment.len(len as usize),
            payload_len: len,
            ends,
        }))
    }

    #[inline(always)]
    fn write_operands(&self, wqe: &Wqe, part: Part, fragment: &mut FragmentWriter<'_>) {
        let (starts, ends) = match part {
            Part::Only => (true, true),
            Part::First => (true, false),
            Part::Middle => (false, false),
            Part::Last => (false, true),
        };
        if wqe.wr.flags.solicited && ends && wqe.consumes_recv_wqe() {
            fragment.solicited();
        }
        if self.is_xrc {
            fragment.xrc_srqn(wqe.wr.xrc_srqn);
        }
        let len = wqe.len;
        match wqe.wr.op {
            SendOp::Send | SendOp::LocalInv { .. } | SendOp::BindMw(_) => {}
            SendOp::SendImm { imm } => fragment.imm_or_rkey(imm),
            SendOp::SendInv { rkey } => fragment.imm_or_rkey(rkey),
            SendOp::Write { va, rkey } if starts => fragment.reth(&Reth { va, rkey, len }),
            SendOp::Write { .. } => {}
            SendOp::WriteImm { va, rkey, imm } => {
                fragment.imm_or_rkey(imm);
                if starts {
                    fragment.reth(&Reth { va, rkey, len });
                }
            }
            SendOp::Read { va, rkey } => fragment.reth(&Reth { va, rkey, len }),
            SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => {
                wqe.wr
                    .op
                    .atomic_eth()
                    .iter()
                    .for_each(|eth| fragment.atomic(eth));
            }
            SendOp::AtomicWrite { va, rkey, .. } => fragment.reth(&Reth { va, rkey, len: 8 }),
            SendOp::Flush {
                va,
                rkey,
                len,
                placement,
                selectivity,
            } => {
                fragment.feth(&Feth {
                    placement,
                    selectivity,
                });
                fragment.reth(&Reth { va, rkey, len });
            }
        }
    }
}
