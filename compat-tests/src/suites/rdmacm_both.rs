//! rdma_cm of a process that has uroce on a host whose kernel has a device, too, in the virtual machine:
//! `uroce0` at the loopback interface, and `rxe0`. Programs listen at both, and reach both.

use std::time::Duration;

use crate::context::{Context, Library};
use crate::machine::Member;
use crate::process::{Exit, Program, last_lines, wait_until};
use crate::testbed::kernel_listens_cm;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Under emulation on a busy host.
const LIMIT: Duration = Duration::from_secs(120);
const RXE: &str = "10.9.9.1";
const UROCE: &str = "127.0.0.1";

/// The library of a program. Ours has uroce.
#[derive(Debug, Clone, Copy)]
enum Side {
    C,
    Ours,
}

/// A server, and the clients that connect to it one after the other. `%p` in commands is the port.
struct Pair {
    name: &'static str,
    server: (Side, &'static str),
    clients: &'static [(Side, &'static str, &'static str)],
    /// The server ends with its client. Otherwise it is ended.
    server_ends: bool,
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "server-at-both",
        server: (Side::Ours, "rping -s -P -v -p %p"),
        clients: &[
            (Side::C, "rping -c -C 5 -v -p %p -a", RXE),
            (Side::Ours, "rping -c -C 5 -v -p %p -a", UROCE),
            (Side::Ours, "rping -c -C 5 -v -p %p -a", RXE),
        ],
        server_ends: false,
    },
    Pair {
        name: "server-at-the-kernels",
        server: (Side::Ours, "rping -s -P -v -a 10.9.9.1 -p %p"),
        clients: &[(Side::C, "rping -c -C 5 -v -p %p -a", RXE)],
        server_ends: false,
    },
    Pair {
        name: "client",
        server: (Side::C, "rping -s -P -v -a 10.9.9.1 -p %p"),
        clients: &[(Side::Ours, "rping -c -C 5 -v -p %p -a", RXE)],
        server_ends: false,
    },
    Pair {
        name: "several-connections",
        server: (Side::Ours, "ucmatose -c 8 -p %p"),
        clients: &[(Side::Ours, "ucmatose -c 8 -p %p -s", RXE)],
        server_ends: true,
    },
];

/// The first port. Each pair has its own, because the kernel keeps closed connections for a while.
const PORT: u16 = 7801;

pub fn members() -> Vec<Member> {
    let members = PAIRS.iter().zip(PORT..).map(|(pair, port)| {
        let name = format!("suites/rdmacm-with-uroce/{}", pair.name);
        Member::new(name, move |cx| run(cx, pair, port))
    });
    members.collect()
}

fn run(cx: &Context, pair: &Pair, port: u16) -> Verdict {
    let (side, command) = pair.server;
    let mut server = program(cx, side, command, port).spawn()?;
    let listens = wait_until(LIMIT, || kernel_listens_cm(port) || !server.is_running());
    let verdict = ensure(listens, "the server does not listen").and_then(|()| {
        pair.clients
            .iter()
            .try_for_each(|(side, command, address)| {
                connect(cx, *side, &format!("{command} {address}"), port)
            })
    });
    if !pair.server_ends || verdict.is_err() {
        server.terminate();
    }
    let exit = server.wait(LIMIT)?;
    let output = server.output();
    verdict.with(last_lines(&output, 10))?;
    ensure(
        !pair.server_ends || exit == Exit::Code(0),
        format!("the server: {exit}\n{}", last_lines(&output, 10)),
    )
}

fn connect(cx: &Context, side: Side, command: &str, port: u16) -> Verdict {
    let ended = program(cx, side, command, port).run()?;
    if ended.ok() {
        return Ok(());
    }
    let why = format!("{command} on {side:?}: {}", ended.exit);
    Err(Failure::new(why).with(last_lines(&ended.out, 10)))
}

fn program(cx: &Context, side: Side, command: &str, port: u16) -> Program {
    let command = command.replace("%p", &port.to_string());
    let program = cx.program(command.split(' ')).limit(LIMIT).merged();
    match side {
        Side::C => program.library(&cx.library_dir(Library::C)),
        Side::Ours => program
            .library(&cx.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=lo"),
    }
}
