//! Introduces errors into a copy of the pages, and expects a message for each of them.

use std::fs;
use std::os::unix::fs::symlink;

use super::headers::regex;
use super::{KINDS, copy, run};
use crate::context::Context;
use crate::verdict::{Failure, Verdict, ensure};

/// Page, regular expression, what replaces each of its matches, and the beginning of the message.
const SPOILED: &[(&str, &str, &str, &str)] = &[
    (
        "ibv_reg_mr.3",
        "\"size_t length\"",
        "\"int length\"",
        "ibv_reg_mr.3: prototypes differ from the distribution's",
    ),
    (
        "ibv_query_port.3",
        "uint8_t port_num",
        "uint16_t port_num",
        "ibv_query_port.3: prototypes differ from",
    ),
    (
        "ibv_query_port_speed.3",
        r"uint64_t \*port_speed",
        "uint32_t *port_speed",
        "ibv_query_port_speed.3: prototypes differ from",
    ),
    (
        "ibv_resolve_eth_l2_from_gid.3",
        "(?m)^.*Fa \"uint16_t \\*vid\".*\n",
        "",
        "ibv_resolve_eth_l2_from_gid.3: prototypes differ from the distribution's",
    ),
    (
        "ibv_alloc_dmah.3",
        "(?m)^.*uint8_t ph;.*\n",
        "",
        "ibv_alloc_dmah.3: struct ibv_dmah_init_attr differs from",
    ),
    (
        "ibv_qp_to_qp_ex.3",
        r"\.qp_type",
        ".kind",
        "ibv_qp_to_qp_ex.3: the example does not compile:",
    ),
    (
        "ibv_register_driver.3",
        " \"void \\*init\"",
        "",
        "ibv_register_driver.3: ibv_register_driver has another number of arguments",
    ),
    (
        "ibv_wr_flush.3",
        "Dv IBV_FLUSH_MR",
        "Dv IBV_FLUSH_MRS",
        "ibv_wr_flush.3: constant IBV_FLUSH_MRS does not exist",
    ),
    (
        "ibv_wc_status_str.3",
        "Xr ibv_poll_cq 3",
        "Xr ibv_poll_cqs 3",
        "ibv_wc_status_str.3: no page ibv_poll_cqs.3",
    ),
    (
        "ibv_cq_ex_to_cq.3",
        r"(?m)^\.Sh RETURN VALUES",
        ".Sh ANSWER",
        "ibv_cq_ex_to_cq.3: no section [\"RETURN VALUES\"]",
    ),
    (
        "verbs_get_ctx.3",
        r"(?m)^\.Sh THREAD SAFETY",
        ".Bogus\n.Sh THREAD SAFETY",
        "verbs_get_ctx.3: mandoc or groff:",
    ),
    (
        "libibverbs-rs.7",
        "It Ev SYSFS_PATH",
        "It Ev SYSFS_PLACE",
        "libibverbs-rs.7: ENVIRONMENT lists",
    ),
    (
        "libibverbs-rs.7",
        "couldn't open config",
        "cannot open config",
        "libibverbs-rs.7: DIAGNOSTICS lacks the message «Warning: couldn't open config",
    ),
    (
        "libibverbs-rs-providers.7",
        "ibv_cmd_query_srq",
        "ibv_cmd_ask_srq",
        "libibverbs-rs-providers.7: does not mention ibv_cmd_query_srq",
    ),
    (
        "ibv_alloc_dmah.3", r"IBVERBS_1\.15", "IBVERBS_1.14", "ibv_alloc_dmah.3: mentions",
    ),
    (
        "with-ibverbs-rs.1",
        "IBVERBS_RS_DIR",
        "IBVERBS_DIR",
        "with-ibverbs-rs.1: ENVIRONMENT lists",
    ),
    (
        "uroce-ctl.1",
        "It Cm qps",
        "It Cm qp",
        "uroce-ctl.1: COMMANDS lists [\"qp\"]",
    ),
    (
        "libibverbs-rs-faults.7",
        "resp-timeout-err",
        "resp-timeout",
        "libibverbs-rs-faults.7: not in RULE VALUES",
    ),
];
/// A link that is led to another page.
const RELINKED: (&str, &str, &str) = (
    "ibv_free_buf.3",
    "ibv_alloc_dmah.3",
    "ibv_free_buf.3: ibv_alloc_dmah.3 does not describe it",
);
/// A page that is removed.
const REMOVED: (&str, &str) = ("ibv_post_wq_recv.3", "no page for ibv_post_wq_recv");

pub fn run_all(cx: &Context) -> Verdict {
    let dir = cx.dir().join("man");
    copy(&cx.paths.repo.join("man"), &dir)?;
    for (page, pattern, with, _) in SPOILED {
        let path = dir.join(page);
        let text = fs::read_to_string(&path)?;
        let spoiled = regex(pattern)
            .replace_all(&text, regex_lite::NoExpand(with))
            .into_owned();
        ensure(spoiled != text, format!("{pattern:?} is not in {page}"))?;
        fs::write(path, spoiled)?;
    }
    fs::remove_file(dir.join(REMOVED.0))?;
    let (link, target, message) = RELINKED;
    fs::remove_file(dir.join(link))?;
    symlink(target, dir.join(link))?;
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let checks = run(cx, &dir, &kinds)?;
    let expected = SPOILED
        .iter()
        .map(|(page, _, _, message)| (*page, *message))
        .chain([REMOVED, (link, message)]);
    for (n, (page, message)) in expected.enumerate() {
        let found = checks
            .failures
            .iter()
            .any(|failure| failure.starts_with(message));
        let verdict = if found {
            Ok(())
        } else {
            Err(Failure::new(format!("not reported: {message}")))
        };
        cx.report(&format!("{:02}-{page}", n + 1), verdict)?;
    }
    Ok(())
}
