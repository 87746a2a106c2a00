//! The verb in which a program ends that has passed NULL, and which argument that was, from the name of the
//! function and the address that was read. Pure.
//!
//! An object's first member is its context, which a verb reads first: address 0 is that of an object that is
//! NULL. A context is read at several offsets, also before its beginning (verbs_context).

/// The kind of a verb's first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// An object whose first member is its context.
    Object,
    /// The same, and a structure behind it, whose first member may be what was read.
    WithStructure,
    /// An `ibv_context`.
    Context,
    /// An `ibv_qp_ex` or an `ibv_cq_ex`, whose functions are at its end.
    Extended,
}

/// How far from NULL the members are that verbs read of a context.
const CONTEXT: usize = 1024;

macro_rules! verbs {
    ($($first:ident $name:literal: $($verb:literal)+;)+) => {
        const VERBS: &[(&str, First, &str)] = &[$($(($verb, First::$first, $name),)+)+];
    };
}

verbs! {
    Context "context":
        "ibv_alloc_dm" "ibv_alloc_pd" "ibv_alloc_td" "ibv_close_device" "ibv_create_comp_channel"
        "ibv_create_cq" "ibv_create_cq_ex" "ibv_create_qp_ex" "ibv_create_srq_ex" "ibv_get_async_event"
        "ibv_open_qp" "ibv_open_xrcd" "ibv_query_device" "ibv_query_device_ex" "ibv_query_gid"
        "ibv_query_gid_table" "ibv_query_pkey" "ibv_query_port" "ibv_query_rt_values_ex";
    Object "pd":
        "ibv_alloc_mw" "ibv_dealloc_pd" "ibv_reg_dmabuf_mr" "ibv_reg_dm_mr" "ibv_reg_mr" "ibv_reg_mr_iova"
        "ibv_reg_mr_iova2";
    WithStructure "pd": "ibv_create_ah" "ibv_create_qp" "ibv_create_srq";
    Object "cq":
        "ibv_destroy_cq" "ibv_poll_cq" "ibv_req_notify_cq" "ibv_resize_cq";
    Object "qp": "ibv_destroy_qp" "ibv_post_recv" "ibv_post_send";
    WithStructure "qp":
        "ibv_attach_mcast" "ibv_detach_mcast" "ibv_modify_qp" "ibv_query_qp";
    Object "srq": "ibv_destroy_srq" "ibv_post_srq_recv";
    WithStructure "srq": "ibv_modify_srq" "ibv_query_srq";
    Object "mr": "ibv_dereg_mr";
    Object "mw": "ibv_dealloc_mw";
    Object "ah": "ibv_destroy_ah";
    Object "channel": "ibv_destroy_comp_channel";
    // An id that is NULL is read at the offset of qp.
    Object "id->qp":
        "rdma_post_read" "rdma_post_readv" "rdma_post_recv" "rdma_post_recvv" "rdma_post_send"
        "rdma_post_sendv" "rdma_post_ud_send" "rdma_post_write" "rdma_post_writev";
    Extended "qp":
        "ibv_wr_abort" "ibv_wr_complete" "ibv_wr_rdma_read" "ibv_wr_rdma_write" "ibv_wr_send"
        "ibv_wr_set_sge" "ibv_wr_start";
    Extended "cq": "ibv_end_poll" "ibv_next_poll" "ibv_start_poll";
}

/// A verb in which a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashed {
    pub verb: &'static str,
    /// The name of the argument that was NULL, if that is certain.
    pub null: Option<&'static str>,
}

fn known(function: &str) -> Option<(&'static str, First, &'static str)> {
    let name = function.rsplit("::").next()?.trim_start_matches('_');
    VERBS.iter().copied().find(|(verb, ..)| *verb == name)
}

/// The verb with this name, in which `address` was read.
fn of_function(name: &str, address: usize) -> Option<Crashed> {
    let (verb, first, argument) = known(name)?;
    let is_certain = match first {
        First::Object => address == 0,
        // It may be the structure.
        First::WithStructure => false,
        First::Context | First::Extended => is_near_null(address),
    };
    let null = is_certain.then_some(argument);
    Some(Crashed { verb, null })
}

/// Whether an address is that of a member of a context, or of a smaller object, that is NULL.
pub fn is_near_null(address: usize) -> bool {
    address.wrapping_add(CONTEXT) < 2 * CONTEXT
}

/// The functions on the stack where `address` was read, the innermost first, and their places in sources:
/// from a backtrace as text, without the handler of the signal.
fn frames(backtrace: &str) -> Vec<(&str, &str)> {
    let mut lines = backtrace.lines().map(str::trim).peekable();
    let mut frames = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((_, name)) = line.split_once(": ") {
            let place = lines.next_if(|next| next.starts_with("at "));
            frames.push((name, place.unwrap_or_default()));
        }
    }
    let handler = frames
        .iter()
        .rposition(|(name, _)| name.contains("on_fault"));
    let inner = frames.into_iter().skip(handler.map_or(0, |at| at + 1));
    // The frame of the signal, and those of the handler if this library has no symbols.
    let is_signal = |(name, _): &(&str, &str)| *name == "<unknown>" || name.contains("restore_rt");
    inner.skip_while(is_signal).collect()
}

/// The verb of this library in which the instruction at `at` has read `address`: one of its first, which
/// lie before the next multiple of `alignment`, where another function may begin. These read the first
/// argument only.
pub fn in_library(
    verbs: &[(&'static str, usize)],
    at: usize,
    alignment: usize,
    address: usize,
) -> Option<Crashed> {
    let mut of = verbs
        .iter()
        .filter(|(_, start)| (*start..*start + alignment).contains(&at));
    let (name, _) = of.next()?;
    let (verb, _, argument) = known(name)?;
    let null = is_near_null(address).then_some(argument);
    // Equal functions may be one.
    of.next().is_none().then_some(Crashed { verb, null })
}

/// The same of a later instruction of a verb, by its symbol. A backtrace names the function of the byte that
/// is before the instruction, which is another one where a function begins.
pub fn deeper_in_library(
    backtrace: &str,
    at: usize,
    alignment: usize,
    address: usize,
) -> Option<Crashed> {
    let frames = frames(backtrace);
    let (name, place) = frames.first().filter(|_| at % alignment != 0)?;
    place
        .contains("/src/verbs/")
        .then(|| of_function(name, address))
        .flatten()
}

/// The verb that the headers define inline, and in which the program itself has read `address`. None without
/// debug information.
pub fn inline(backtrace: &str, address: usize) -> Option<Crashed> {
    let is_inline = |(_, place): &&(&str, &str)| {
        place.contains("/infiniband/verbs.h:") || place.contains("/rdma/rdma_verbs.h:")
    };
    let frames = frames(backtrace);
    let mut of_headers = frames.iter().take_while(is_inline);
    of_headers.find_map(|(name, _)| of_function(name, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, address: usize) -> Option<(&str, Option<&str>)> {
        of_function(name, address).map(|found| (found.verb, found.null))
    }

    #[test]
    fn the_argument_that_was_null() {
        assert_eq!(
            found("ibv_reg_mr_iova2", 0),
            Some(("ibv_reg_mr_iova2", Some("pd")))
        );
        assert_eq!(
            found("ibv_reg_mr_iova2", 8),
            Some(("ibv_reg_mr_iova2", None))
        );
        let before = 0_usize.wrapping_sub(0x70);
        assert_eq!(
            found("ibv_alloc_pd", before),
            Some(("ibv_alloc_pd", Some("context")))
        );
        assert_eq!(
            found("___ibv_query_port", 0x138),
            Some(("ibv_query_port", Some("context")))
        );
        assert_eq!(found("ibv_modify_qp", 0), Some(("ibv_modify_qp", None)));
        assert_eq!(
            found("ibv_alloc_pd", 0x7000_0000),
            Some(("ibv_alloc_pd", None))
        );
        assert_eq!(found("main", 0), None);
    }

    #[test]
    fn verbs_of_the_library() {
        let verbs = [
            ("ibv_dealloc_pd", 0x1000),
            ("ibv_reg_mr", 0x1010),
            ("ibv_destroy_ah", 0x1020),
            ("ibv_destroy_qp", 0x1020),
        ];
        let of = |at| in_library(&verbs, at, 16, 0).map(|found| (found.verb, found.null));
        assert_eq!(of(0x1000), Some(("ibv_dealloc_pd", Some("pd"))));
        assert_eq!(of(0x1014), Some(("ibv_reg_mr", Some("pd"))));
        assert_eq!(of(0x1020), None, "two have this address");
        assert_eq!((of(0xfff), of(0x1030)), (None, None));
        let other = in_library(&verbs, 0x1010, 16, 0x7000_0000);
        assert_eq!(
            other.map(|found| found.null),
            Some(None),
            "it is not mapped"
        );
    }

    #[test]
    fn later_instructions_of_a_verb() {
        let text = "   0: on_fault\n   1: <unknown>\n   2: ibv_reg_mr_iova2\n        \
        at /usr/src/libibverbs-rs/src/verbs/mr.rs:77:0\n   3: __ibv_reg_mr\n   4: main\n";
        let of = |text: &str, at| {
            deeper_in_library(text, at, 16, 0).map(|found| (found.verb, found.null))
        };
        assert_eq!(of(text, 0x1044), Some(("ibv_reg_mr_iova2", Some("pd"))));
        assert_eq!(of(text, 0x1040), None, "it may be another function");
        let stripped = text
            .replace("on_fault", "<unknown>")
            .replace("2: ibv_reg_mr_iova2", "2: <unknown>");
        assert_eq!(of(&stripped, 0x1044), None);
    }

    #[test]
    fn verbs_within_the_program() {
        let text = "   0: on_fault\n        at /usr/src/libibverbs-rs/src/diagnose/crash.rs:64:26\n   \
        1: <unknown>\n   2: ibv_post_send\n        at /usr/include/infiniband/verbs.h:3342:11\n   \
        3: main\n        at ./a.c:10:10\n";
        let found = inline(text, 0).unwrap();
        assert_eq!((found.verb, found.null), ("ibv_post_send", Some("qp")));
        assert_eq!(inline(text, 16).unwrap().null, None);
        let stripped = text.replace("on_fault", "<unknown>");
        assert!(inline(&stripped, 0).is_some());
        let other = text.replace("infiniband/verbs.h", "string.h");
        assert_eq!(inline(&other, 0), None);
        let callback = "   0: <unknown>\n   1: compare\n        at ./a.c:3\n   2: ibv_poll_cq\n        \
        at /usr/include/infiniband/verbs.h:2888:9\n";
        assert_eq!(
            inline(callback, 0),
            None,
            "another function is the innermost"
        );
    }
}
