//! Memory windows: why a region does not allow what a window is to be bound to.

use ibverbs_abi::*;

use super::key;
use crate::diagnose::mr::Mr;

/// The first reason why `region` has no such window: what is wrong, why, and what to do. The range is address
/// and length in bytes; `access` are the window's flags.
pub fn wrong(
    region: &Mr,
    (addr, length): (u64, u64),
    access: u32,
) -> Option<(String, &'static str, &'static str)> {
    let shown = key::region(region);
    if region.access & IBV_ACCESS_MW_BIND == 0 {
        return Some((
            format!("the region {shown} was registered without IBV_ACCESS_MW_BIND"),
            "only regions with this access flag can be bound to windows",
            "register the region with IBV_ACCESS_MW_BIND",
        ));
    }
    let end = u128::from(region.start) + u128::from(region.length);
    if addr < region.start || u128::from(addr) + u128::from(length) > end {
        return Some((
            format!("the window of {length} bytes at {addr:#x} is not within the region {shown}"),
            "a window is a part of its region",
            "compare address and length with the region's",
        ));
    }
    let writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) != 0;
    (writes && region.access & IBV_ACCESS_LOCAL_WRITE == 0).then(|| {
        (
            format!(
                "the window lets the peer write, and the region {shown} lacks IBV_ACCESS_LOCAL_WRITE"
            ),
            "remote write and atomic access need local write access in the region",
            "register the region with IBV_ACCESS_LOCAL_WRITE",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::shadow::tests::mr;

    fn judge(access: u32, range: (u64, u64), asked: u32) -> Option<String> {
        let region = Mr { access, ..mr(7, 8) };
        wrong(&region, range, asked).map(|(what, ..)| what)
    }

    #[test]
    fn ranges_and_rights() {
        let (whole, writes) = ((0x1000, 0x1000), IBV_ACCESS_REMOTE_WRITE);
        let all = IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE;
        assert_eq!(judge(all, whole, writes), None);
        assert!(
            judge(IBV_ACCESS_LOCAL_WRITE, whole, 0)
                .unwrap()
                .contains("without")
        );
        for range in [(0xfff, 1), (0x1000, 0x1001), (0x2000, 1), (u64::MAX, 2)] {
            assert!(judge(all, range, 0).unwrap().contains("not within"));
        }
        assert_eq!(
            judge(IBV_ACCESS_MW_BIND, whole, IBV_ACCESS_REMOTE_READ),
            None
        );
        assert!(
            judge(IBV_ACCESS_MW_BIND, whole, writes)
                .unwrap()
                .contains("lacks")
        );
    }
}
