//! The command SET_OPTION: options of ids.

use ibverbs_abi::{Errno, Result};

use super::EINVAL;
use super::events::{EventType, Notice};
use super::id::{IdState, qp_type};
use super::input::Input;
use super::manager::{Caller, Manager};
use super::os::{CmOs, FileId};
use super::query::{PATH_FLAGS, PATH_LEN, awaits_path, parse_sa_path};

/// Levels, and options of each.
const LEVEL_ID: u32 = 0;
const LEVEL_IB: u32 = 1;
const ID_TOS: u32 = 0;
const ID_REUSEADDR: u32 = 1;
const ID_AFONLY: u32 = 2;
const ID_ACK_TIMEOUT: u32 = 3;
const IB_PATH: u32 = 1;

impl<H: CmOs> Manager<H> {
    pub(super) fn set_option(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        let number = self.ids.find(file, input.u32(8))?;
        let value = caller.option;
        match (input.u32(12), input.u32(16)) {
            (LEVEL_ID, ID_TOS) => {
                let [tos] = byte(value)?;
                self.ids.existing(number)?.tos = Some(tos);
            }
            (LEVEL_ID, ID_REUSEADDR) => {
                let reuse = int(value)? != 0;
                let id = self.ids.existing(number)?;
                if !reuse && id.state != IdState::Idle {
                    return Err(EINVAL);
                }
                id.reuse_address = reuse;
            }
            (LEVEL_ID, ID_AFONLY) => {
                let only = int(value)? != 0;
                let id = self.ids.existing(number)?;
                if !matches!(id.state, IdState::Idle | IdState::Bound) {
                    return Err(EINVAL);
                }
                id.family_only = only;
                id.family_only_set = true;
            }
            (LEVEL_ID, ID_ACK_TIMEOUT) => {
                let [timeout] = byte(value)?;
                let id = self.ids.existing(number)?;
                // As in the kernel, a timeout above 31 is refused only when a queue pair gets it.
                if !matches!(id.qp_type, qp_type::RC | qp_type::XRC_SEND) {
                    return Err(EINVAL);
                }
                id.ack_timeout = Some(timeout);
            }
            (LEVEL_IB, IB_PATH) => {
                let number = self.ids.find_bound(file, number)?;
                return self.set_path(number, value);
            }
            _ => return Err(Errno(libc::ENOSYS)),
        }
        let id = self.ids.existing(number)?;
        id.settings.retain(|(name, _)| *name != input.u32(16));
        id.settings.push((input.u32(16), value.to_vec()));
        self.kernel_ids().set_option(number, input, value)
    }

    fn set_path(&mut self, number: u32, value: &[u8]) -> Result<()> {
        if value.len() % PATH_LEN != 0 {
            return Err(EINVAL);
        }
        let chosen = value
            .chunks_exact(PATH_LEN)
            .find(|data| data.first_chunk() == Some(&PATH_FLAGS.to_ne_bytes()));
        let record = chosen.and_then(|data| data.get(8..)).ok_or(EINVAL)?;
        let id = self.ids.existing(number)?;
        if !awaits_path(id) {
            return Err(EINVAL);
        }
        id.path = Some(parse_sa_path(record, id).ok_or(EINVAL)?);
        id.state = IdState::RouteResolved;
        self.report(number, Notice::plain(EventType::RouteResolved));
        Ok(())
    }
}

fn byte(value: &[u8]) -> Result<[u8; 1]> {
    value.try_into().map_err(|_| EINVAL)
}

fn int(value: &[u8]) -> Result<i32> {
    value.try_into().map(i32::from_ne_bytes).map_err(|_| EINVAL)
}
