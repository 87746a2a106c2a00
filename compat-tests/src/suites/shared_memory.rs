//! Cases of shared memory: which processes exchange packets of uroce through it, also those of
//! other containers of a pod, and those of other users if both allow it; and which access each
//! other's memory directly.

use std::time::Duration;

use crate::case::Case;
use crate::context::{Context, Library};
use crate::process::{Program, read, succeeded, wait_until};
use crate::sandbox::{ORDINARY, Sandbox, can_change_user};
use crate::testbed::{Hosts, Testbed};
use crate::verdict::{Failure, Verdict, ensure};

/// The port of the server.
const PORT: u16 = 20_000;
/// Counters, as the verbs log has them.
const SENT: &str = "local_sent_pkts=";
const DIRECT: &str = "direct_ops=";
/// WRITEs of [`PING_PONG`], and of [`WRITES`].
const COUNT: u64 = 1000;
const PING_PONG: &str = "ibv_rc_pingpong -g 1 -n 1000 -p";
const WRITES: &str = "ib_write_lat -d uroce0 -x 1 -F -n 1000 -p";
/// Never waits for a request before it posts the next.
const STREAM: &str = "ib_write_bw -b -d uroce0 -x 1 -F -n 1000 -p";
/// Messages whose bytes are checked: 64 KiB and more, of 1 KiB packets.
const LONG: [&str; 3] = [
    "ibv_rc_pingpong -g 1 -n 1000 -c -s 65536",
    "ibv_rc_pingpong -g 1 -n 1000 -c -e -s 3000000",
    "ibv_srq_pingpong -g 1 -n 1000 -c -q 3 -s 65536",
];
const USERS: [u64; 2] = [ORDINARY, ORDINARY - 1];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("pid-namespace", pid_namespace),
        case("seccomp", seccomp).programs(&["no-ptrace"]),
        case("no-memfd", no_memfd).programs(&["no-memfd"]),
        case("one-user", |cx| users(cx, ["1", "1"], true, true)),
        case("other-user", |cx| users(cx, ["1", "1"], false, false)),
        case("other-user-any", |cx| {
            users(cx, ["any", "any"], false, true)
        }),
        case("other-user-one-any", |cx| {
            users(cx, ["any", "1"], false, false)
        }),
        case("direct-stream", stream),
        case("direct-one-way", one_way),
        case("direct-own-rseq", |cx| {
            accesses(cx, ["1"; 2], true, &|program, _| {
                program.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            })
        }),
        case("direct-no-rseq", |cx| {
            let filter = cx.built("no-rseq")?;
            accesses(cx, ["1"; 2], false, &|program, _| {
                program.under([filter.clone()])
            })
        })
        .programs(&["no-rseq"]),
    ];
    cases.extend(of_two("direct", accesses));
    cases.extend(of_two("long", long));
    cases
}

fn case(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    Case::new(format!("uroce/local/{name}"), run)
        .sandbox(Sandbox::Namespace)
        .cpu(200)
}

type Change<'a> = &'a dyn Fn(Program, Role) -> Program;
/// Server and client with these values of IBV_UROCE_LOCAL exchange something, with access to each other's
/// memory or without.
type Exchange = fn(&Context, [&str; 2], bool, Change<'_>) -> Verdict;

/// An exchange of two processes that may access each other's memory, and of those that may not.
fn of_two(name: &str, exchange: Exchange) -> [Case; 4] {
    let case = |suffix: &str, run: fn(&Context, Exchange) -> Verdict| {
        case(&format!("{name}{suffix}"), move |cx| run(cx, exchange))
    };
    [
        case("", |cx, exchange| {
            exchange(cx, ["1"; 2], true, &|program, _| program)
        }),
        case("-one-side", |cx, exchange| {
            exchange(cx, ["1", "packets"], false, &|program, _| program)
        }),
        case("-pid-namespace", |cx, exchange| {
            exchange(cx, ["1"; 2], false, &in_pid_namespaces)
        }),
        case("-seccomp", |cx, exchange| {
            let filter = cx.built("no-ptrace")?;
            exchange(cx, ["1"; 2], false, &|program, _| {
                program.under([filter.clone()])
            })
        })
        .programs(&["no-ptrace"]),
    ]
}

/// Containers of a pod have one network namespace, and a PID namespace each.
fn pid_namespace(cx: &Context) -> Verdict {
    runs(cx, true, |program, role| {
        let program = program.env("IBV_UROCE_LOCAL", "1");
        match role {
            Role::Server => in_pid_namespaces(program, role),
            Role::Client => program,
        }
    })
}

/// Neither sees the other's PID.
fn in_pid_namespaces(program: Program, _: Role) -> Program {
    program.under(["unshare", "--pid", "--fork", "--kill-child", "--"])
}

/// Server and client with these values of IBV_UROCE_LOCAL write to each other's memory: directly, or through
/// shared memory.
fn accesses(cx: &Context, values: [&str; 2], directly: bool, change: Change<'_>) -> Verdict {
    exchange(cx, WRITES, |program, role| {
        let value = values[usize::from(matches!(role, Role::Client))];
        change(program.env("IBV_UROCE_LOCAL", value), role)
    })?;
    for role in [Role::Server, Role::Client] {
        let log = read(log_of(role).as_ref());
        let count = counter(&log, DIRECT)?;
        // On a busy host the first ones leave before both sides have agreed.
        ensure(
            if directly {
                count > COUNT / 2
            } else {
                count == 0
            },
            format!("{role:?}: {count} WRITEs without the target's CPU"),
        )?;
        ensure(
            directly || counter(&log, SENT)? > 0,
            format!("{role:?}: by UDP"),
        )?;
    }
    Ok(())
}

/// The first WRITE already needs no CPU of the target: with one outstanding, no later one could.
fn stream(cx: &Context) -> Verdict {
    exchange(cx, STREAM, |program, _| program)?;
    for role in [Role::Server, Role::Client] {
        let direct = counter(&read(log_of(role).as_ref()), DIRECT)?;
        ensure(
            direct >= COUNT,
            format!("{role:?}: {direct} WRITEs without the target's CPU"),
        )?;
    }
    Ok(())
}

/// The server never sends, so that it stays in RTR, and the client always has requests of 64 KiB outstanding.
/// All but those at the beginning need no CPU of the server.
fn one_way(cx: &Context) -> Verdict {
    for command in ["ib_write_bw", "ib_read_bw"] {
        let stream = WRITES.replace("ib_write_lat", command);
        exchange(cx, &stream, |program, _| program)?;
        let direct = counter(&read(log_of(Role::Client).as_ref()), DIRECT)?;
        ensure(
            direct > COUNT / 2,
            format!("{command}: {direct} requests without the target's CPU"),
        )?;
    }
    Ok(())
}

/// The most parts of messages of `len` bytes, and acknowledgments, that take the channel. They would be
/// more than twice as many packets of 4 KiB.
fn most_parts(len: u64) -> u64 {
    COUNT * (len / (16 << 10) + 4)
}

/// Server and client with these values of IBV_UROCE_LOCAL send long messages, whose bytes are checked.
fn long(cx: &Context, values: [&str; 2], _: bool, change: Change<'_>) -> Verdict {
    for command in LONG {
        let len = command.rsplit(' ').next().and_then(|len| len.parse().ok());
        let len: u64 = len.ok_or("a command without a length at its end")?;
        let command = format!("{command} -p");
        exchange(cx, &command, |program, role| {
            let value = values[usize::from(matches!(role, Role::Client))];
            change(program.env("IBV_UROCE_LOCAL", value), role)
        })?;
        for role in [Role::Server, Role::Client] {
            // The first ones leave before both sides have agreed.
            let shared = counter(&read(log_of(role).as_ref()), SENT)?;
            ensure(
                shared > COUNT / 2 && shared < most_parts(len),
                format!("{command:?}, {role:?}: {shared} parts of messages"),
            )?;
        }
    }
    Ok(())
}

/// A container's filter that refuses access to memory of other processes.
fn seccomp(cx: &Context) -> Verdict {
    let filter = cx.built("no-ptrace")?;
    runs(cx, true, |program, _| {
        program.env("IBV_UROCE_LOCAL", "1").under([filter.clone()])
    })
}

/// A filter that refuses the memory of channels: all goes by UDP.
fn no_memfd(cx: &Context) -> Verdict {
    let filter = cx.built("no-memfd")?;
    runs(cx, false, |program, _| {
        program.env("IBV_UROCE_LOCAL", "1").under([filter.clone()])
    })
}

/// Server and client with these values of IBV_UROCE_LOCAL, as one user or as two.
fn users(cx: &Context, values: [&str; 2], one: bool, shared: bool) -> Verdict {
    if !can_change_user() {
        return Err(Failure::skip("needs root"));
    }
    runs(cx, shared, |program, role| {
        let (value, user) = match role {
            Role::Server => (values[0], USERS[0]),
            Role::Client => (values[1], USERS[usize::from(!one)]),
        };
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        let command = ["setpriv".into()].into_iter().chain(ids);
        let program = program.env("IBV_UROCE_LOCAL", value);
        program.under(command.chain(["--clear-groups".into()]))
    })
}

#[derive(Clone, Copy, Debug)]
pub enum Role {
    Server,
    Client,
}

/// Exchanges messages, through shared memory or by UDP. `change` makes the program of a role.
fn runs(cx: &Context, shared: bool, change: impl Fn(Program, Role) -> Program) -> Verdict {
    exchange(cx, PING_PONG, change)?;
    for role in [Role::Server, Role::Client] {
        let sent = counter(&read(log_of(role).as_ref()), SENT)?;
        ensure(
            (sent > 0) == shared,
            format!("{role:?}: {sent} packets through shared memory"),
        )?;
    }
    Ok(())
}

/// Runs a command, to which the port is added, as server and client.
pub fn exchange(cx: &Context, command: &str, change: impl Fn(Program, Role) -> Program) -> Verdict {
    let hosts = Testbed::Loopback.make(cx)?;
    // The log has lines of an earlier exchange: programs append to it.
    for role in [Role::Server, Role::Client] {
        let _ = std::fs::remove_file(log_of(role));
    }
    let program = |command: &str, role| {
        let program = cx
            .program(command.split(' '))
            .library(&cx.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=lo")
            .env("VERBS_LOG_LEVEL", "3")
            .env("VERBS_LOG_FILE", log_of(role));
        change(program, role)
    };
    let command = format!("{command} {PORT}");
    let mut server = program(&command, Role::Server).spawn()?;
    await_server(&hosts)?;
    program(&format!("{command} 127.0.0.1"), Role::Client).succeed()?;
    let exit = server.wait(Duration::from_secs(20))?;
    let server = server.ended(exit)?;
    succeeded("server", &server)
}

/// The verbs log of a role's program, in the case's own /tmp: every user can write there.
fn log_of(role: Role) -> &'static str {
    match role {
        Role::Server => "/tmp/server.log",
        Role::Client => "/tmp/client.log",
    }
}

fn await_server(hosts: &Hosts) -> Verdict {
    let ready = wait_until(Duration::from_secs(20), || hosts.server.listens(PORT));
    ensure(ready, "the server does not listen")
}

/// The value of a counter at the end of the program; counters that are 0 are not logged.
fn counter(log: &str, name: &str) -> Result<u64, Failure> {
    let line = log
        .lines()
        .find(|line| line.contains("counters of uroce0:"));
    let line = line.ok_or_else(|| Failure::new("the log has no counters").with(log))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix(name));
    value.map_or(Ok(0), |digits| {
        let wrong = || Failure::new(format!("{name}{digits}"));
        digits.parse().map_err(|_| wrong())
    })
}
