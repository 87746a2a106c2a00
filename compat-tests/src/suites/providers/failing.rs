//! Commands and ioctl methods that fail: both libraries return the same, and ask the kernel for the same
//! next.

use crate::checks::Check;
use crate::fake::record::Record;

use super::ProviderSource;

const COMMANDS: &str = "GET_CONTEXT QUERY_DEVICE QUERY_PORT ALLOC_PD DEALLOC_PD CREATE_AH DESTROY_AH REG_MR \
    REREG_MR DEREG_MR ALLOC_MW DEALLOC_MW CREATE_COMP_CHANNEL CREATE_CQ RESIZE_CQ DESTROY_CQ CREATE_QP \
    QUERY_QP MODIFY_QP DESTROY_QP ATTACH_MCAST DETACH_MCAST CREATE_SRQ MODIFY_SRQ QUERY_SRQ DESTROY_SRQ \
    OPEN_XRCD CLOSE_XRCD CREATE_XSRQ OPEN_QP EX_QUERY_DEVICE EX_CREATE_CQ EX_CREATE_QP EX_MODIFY_QP \
    EX_CREATE_FLOW EX_DESTROY_FLOW EX_CREATE_WQ EX_MODIFY_WQ EX_DESTROY_WQ EX_CREATE_RWQ_IND_TBL \
    EX_DESTROY_RWQ_IND_TBL EX_MODIFY_CQ";

const METHODS: &str = "GET_CONTEXT QUERY_PORT CQ_CREATE CQ_DESTROY QP_CREATE QP_DESTROY SRQ_CREATE \
    SRQ_DESTROY WQ_CREATE WQ_DESTROY PD_DESTROY AH_DESTROY MR_DESTROY MW_DESTROY XRCD_DESTROY FLOW_DESTROY \
    RWQ_IND_TBL_DESTROY DM_ALLOC DM_FREE DM_MR_REG ADVISE_MR QUERY_MR COUNTERS_CREATE COUNTERS_READ \
    COUNTERS_DESTROY QUERY_GID_ENTRY QUERY_GID_TABLE ASYNC_EVENT_ALLOC";

/// Commands by write().
pub fn commands(release: ProviderSource, device: &'static str) -> Vec<Check> {
    each(release, COMMANDS, &["ENOSYS", "EIO"], device, None)
}

/// Methods by ioctl(), with the provider that uses most of them.
pub fn methods(release: ProviderSource) -> Vec<Check> {
    each(
        release,
        METHODS,
        &["ENOTTY", "EPROTONOSUPPORT", "EIO"],
        "mlx5_0",
        Some("ok"),
    )
}

fn each(
    release: ProviderSource,
    names: &str,
    errors: &[&str],
    device: &str,
    ioctl: Option<&str>,
) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in names.split_whitespace() {
        for error in errors {
            let failure = format!("{name}={error}");
            let scene = release
                .scene(failure.clone(), &["verbs_walk", device])
                .env("FAKE_FAIL", failure)
                .record(Record::Everything);
            let scene = match ioctl {
                Some(how) => scene.env("FAKE_IOCTL", how),
                None => scene,
            };
            checks.push(scene.check());
        }
    }
    checks
}
