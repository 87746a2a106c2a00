//! On-demand paging (ODP): regions whose pages need not be present, or even mapped, at registration.
//!
//! uroce pins no region, and each access is checked where it is made (`crate::nofault`). So such a region
//! differs from others only in that registration leaves its pages as they are.

use ibverbs_abi::*;
use libc::{EINVAL, ENOENT, EPERM};

use super::{Memory, PdHandle};
use roce::engine::Sge;

impl Memory {
    /// The address and length of memory that ibv_advise_mr(3) names, in an ODP region of this protection
    /// domain. ENOENT if the L_Key is of no region there, EINVAL if the region does not use on-demand
    /// paging or does not contain the memory, EPERM if it is not `writable`.
    pub fn on_demand(
        &self,
        sge: &Sge,
        writable: bool,
        pd: PdHandle,
    ) -> Result<(usize, usize), Errno> {
        let table = self.read_table();
        let region = table.region(sge.lkey).filter(|region| region.pd == pd);
        let region = region.ok_or(Errno(ENOENT))?;
        if region.access & IBV_ACCESS_ON_DEMAND == 0 {
            return Err(Errno(EINVAL));
        }
        if writable && region.access & IBV_ACCESS_LOCAL_WRITE == 0 {
            return Err(Errno(EPERM));
        }
        let slice = region.local(sge, writable, pd).ok_or(Errno(EINVAL))?;
        Ok((slice.ptr.addr(), slice.len))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryRegion, MrRange};
    use super::*;

    #[test]
    fn advice_is_checked_against_the_region() {
        const PD: PdHandle = PdHandle(1);
        let memory = Memory::default();
        let register = |access| {
            memory.register(MemoryRegion {
                pd: PD,
                range: MrRange {
                    start: 0x7000,
                    len: 0x100,
                    iova: 0x1000,
                },
                access,
            })
        };
        let writable = register(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
        let (readable, pinned) = (register(IBV_ACCESS_ON_DEMAND), register(0));
        let ask =
            |addr, len, lkey, write, pd| memory.on_demand(&Sge { addr, len, lkey }, write, pd);
        for (addr, len, key, write, pd, expected) in [
            (0x1010, 0x20, writable, true, PD, Ok((0x7010, 0x20))),
            (0x1100, 0, writable, true, PD, Ok((0x7100, 0))),
            (0x1000, 0x100, readable, false, PD, Ok((0x7000, 0x100))),
            (0x1000, 0x100, readable, true, PD, Err(Errno(EPERM))),
            (0x1000, 0x101, readable, false, PD, Err(Errno(EINVAL))),
            (0xfff, 1, readable, false, PD, Err(Errno(EINVAL))),
            (0x1000, 1, pinned, false, PD, Err(Errno(EINVAL))),
            (0x1000, 1, readable, false, PdHandle(2), Err(Errno(ENOENT))),
            (0x1000, 1, readable ^ 1, false, PD, Err(Errno(ENOENT))),
        ] {
            assert_eq!(ask(addr, len, key, write, pd), expected, "{addr:#x}, {len}");
        }
        let whole = memory.register(MemoryRegion {
            pd: PD,
            range: MrRange {
                start: 0,
                len: u64::MAX,
                iova: 0,
            },
            access: IBV_ACCESS_ON_DEMAND,
        });
        assert_eq!(ask(0x12_3456, 8, whole, false, PD), Ok((0x12_3456, 8)));
        let last = usize::MAX as u64 - 8;
        assert_eq!(ask(last, 8, whole, false, PD), Ok((last as usize, 8)));
        assert_eq!(ask(last, 9, whole, false, PD), Err(Errno(EINVAL)));
    }
}
