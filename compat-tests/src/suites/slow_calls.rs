//! Programs on uroce in which a system call is slow now and then, as it is for a thread that a busy host does
//! not run: other threads of the process go on meanwhile, and must neither overtake what the slow one has in
//! hand nor wait for it for good. strace(1) delays the calls.

use super::shared_memory::{Role, exchange};
use crate::case::Case;
use crate::context::Context;
use crate::process::{Program, read};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Verdict, ensure};

/// A system call, and how it is delayed.
struct SlowCall {
    name: &'static str,
    /// The delays that strace injects, in microseconds.
    injected: &'static str,
    /// The value of IBV_UROCE_LOCAL.
    local: &'static str,
    /// The client only is slow: both sides slow would take too long.
    client_only: bool,
}

const fn by_udp(name: &'static str, injected: &'static str, client_only: bool) -> SlowCall {
    SlowCall {
        name,
        injected,
        local: "0",
        client_only,
    }
}

const fn by_shared_memory(name: &'static str, injected: &'static str) -> SlowCall {
    SlowCall {
        local: "1",
        ..by_udp(name, injected, false)
    }
}

const CALLS: &[SlowCall] = &[
    by_udp("recvmmsg", "delay_exit=25000:when=3+7", true),
    by_udp("sendmmsg", "delay_enter=1000", false),
    by_shared_memory("sendmsg", "delay_enter=1000"),
    by_shared_memory("sendto", "delay_enter=1000"),
    by_shared_memory("epoll_pwait", "delay_exit=1000"),
    by_shared_memory("ppoll", "delay_exit=1000"),
    by_shared_memory("futex", "delay_enter=500"),
];

const PROGRAMS: [(&str, &str); 4] = [
    (
        "uc-64K",
        "ibv_uc_pingpong -g 1 -n 100 -s 65536 -m 4096 -c -p",
    ),
    ("rc-64K-e", "ibv_rc_pingpong -g 1 -n 100 -s 65536 -e -c -p"),
    (
        "srq-1M-e",
        "ibv_srq_pingpong -g 1 -n 20 -s 1048576 -q 4 -e -p",
    ),
    ("send_bw-e", "ib_send_bw -d uroce0 -x 1 -F -e -n 500 -p"),
];

pub fn cases() -> Vec<Case> {
    let all = CALLS.iter().flat_map(|call| {
        PROGRAMS.iter().map(move |(name, command)| {
            Case::new(format!("uroce/slow-calls/{}/{name}", call.name), |cx| {
                works(cx, call, command)
            })
            .sandbox(Sandbox::Namespace)
            .cpu(200)
            .estimate(1)
        })
    });
    all.collect()
}

fn works(cx: &Context, call: &SlowCall, command: &str) -> Verdict {
    exchange(cx, command, |program, role| {
        let program = program.env("IBV_UROCE_LOCAL", call.local);
        match role {
            Role::Server if call.client_only => program,
            _ => delayed(program, call, role),
        }
    })?;
    let calls = read(calls_of(Role::Client).as_ref());
    let delayed = calls.lines().filter(|line| line.contains("(DELAYED)"));
    ensure(delayed.count() > 0, "no call was delayed").with(calls)
}

fn delayed(program: Program, call: &SlowCall, role: Role) -> Program {
    let [trace, inject] = [
        format!("trace={}", call.name),
        format!("inject={}:{}", call.name, call.injected),
    ];
    let strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", calls_of(role)];
    program.under(strace.into_iter().chain(["-e", &trace, "-e", &inject]))
}

/// The calls of a role's program, in the case's own /tmp.
fn calls_of(role: Role) -> &'static str {
    match role {
        Role::Server => "/tmp/server.calls",
        Role::Client => "/tmp/client.calls",
    }
}
