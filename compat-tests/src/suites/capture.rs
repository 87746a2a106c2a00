//! The files of IBV_UROCE_PCAP: what two processes record of one connection, as tshark dissects it.

mod tshark;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::case::Case;
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Ended, Program, succeeded, wait_until};
use crate::sandbox::Sandbox;
use crate::testbed::{Hosts, Testbed};
use crate::verdict::{Failure, Verdict, ensure};
use tshark::{ACK, Dissection, Packet, READ_LAST, comments, dissect, dissect_as};

pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Context) -> Verdict| {
        Case::new(format!("uroce/capture/{name}"), run).sandbox(Sandbox::Namespace)
    };
    let mut cases = vec![
        case("sends", sends),
        case("reads", reads),
        case("killed", killed),
        case("file-size-limit", file_size_limit),
        case("unwritable", unwritable),
        case("large", large),
        case("limit", limit),
        case("losses", losses),
        case("injected", injected),
        case("fork", fork).programs(&["faults"]),
    ];
    cases.extend(OTHERS.iter().map(|(name, argv)| {
        let run = |cx: &Context| recorded_alike(cx, argv).map(drop);
        Case::new(format!("uroce/capture/{name}"), run).sandbox(Sandbox::Namespace)
    }));
    cases
}

/// Programs of the other transports.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "uc",
        &["ibv_uc_pingpong", "-g", "1", "-n", "50", "-p", PORT],
    ),
    (
        "ud",
        &["ibv_ud_pingpong", "-g", "1", "-n", "50", "-p", PORT],
    ),
    (
        "xrc",
        &[
            "ibv_xsrq_pingpong", "-g", "1", "-n", "50", "-c", "1", "-p", PORT,
        ],
    ),
];

/// The port of the servers.
const PORT: &str = "20000";

/// SENDs of four packets, and ACKs.
fn sends(cx: &Context) -> Verdict {
    let ping = ["ibv_rc_pingpong", "-g", "1", "-n", "2", "-p", PORT];
    let packets = recorded_alike(cx, &ping)?;
    for (name, wanted) in [
        ("SEND First", "0"),
        ("SEND Middle", "1"),
        ("SEND Last", "2"),
        ("ACK", "17"),
    ] {
        let found = packets.iter().filter(|packet| packet.opcode == wanted);
        // Two messages in either direction; an ACK may cover more than one.
        let at_least = if name == "ACK" { 2 } else { 4 };
        ensure(
            found.count() >= at_least,
            format!("fewer than {at_least} packets are {name}"),
        )?;
    }
    let acks = packets.iter().filter(|packet| packet.opcode == "17");
    ensure(
        acks.into_iter().all(|ack| !ack.msn.is_empty()),
        "an ACK has no AETH",
    )
}

/// READ requests with a RETH, responses with an AETH.
fn reads(cx: &Context) -> Verdict {
    let read = [
        "ib_read_lat", "-F", "-x", "1", "-s", "2000", "-n", "5", "-p", PORT,
    ];
    let packets = recorded_alike(cx, &read)?;
    let requests = packets.iter().filter(|packet| packet.opcode == "12");
    let responses = packets
        .iter()
        .filter(|packet| ["13", "15", "16"].contains(&packet.opcode.as_str()));
    ensure(
        requests.clone().count() >= 5 && requests.into_iter().all(|packet| packet.len == "2000"),
        "not every READ request has a RETH for 2000 bytes",
    )?;
    ensure(
        responses.clone().count() >= 5
            && responses.into_iter().all(|packet| !packet.msn.is_empty()),
        "not every READ response has an AETH",
    )
}

/// A process that is killed leaves a file of whole packets.
fn killed(cx: &Context) -> Verdict {
    let bandwidth = ["ib_send_bw", "-F", "-x", "1", "-D", "30", "-p", PORT];
    let hosts = Testbed::Loopback.make(cx)?;
    let server = uroce(cx, &bandwidth, "server").spawn()?;
    await_server(&hosts)?;
    let mut client = uroce(cx, &[&bandwidth[..], &["127.0.0.1"]].concat(), "client").spawn()?;
    let files = ["server", "client"].map(|role| file(cx, role));
    let grown = wait_until(Duration::from_secs(20), || {
        files.iter().all(|file| {
            file.metadata()
                .is_ok_and(|metadata| metadata.len() > 1 << 20)
        })
    });
    ensure(grown, "no packets are recorded")?;
    drop(server);
    client.wait(Duration::ZERO)?;
    for file in &files {
        // A signal that kills ends a write(2) between two pages: the last packet may be incomplete.
        let cut = Dissection {
            may_end_early: true,
            ..Dissection::default()
        };
        let packets = dissect_as(cx, file, cut)?;
        ensure(packets.len() > 100, format!("{} packets", packets.len()))?;
    }
    Ok(())
}

/// RLIMIT_FSIZE, whose signal kills programs: a warning, and the program works.
fn file_size_limit(cx: &Context) -> Verdict {
    let limited =
        |argv: &[&str], role: &str| uroce(cx, argv, role).under(["prlimit", "--fsize=32768", "--"]);
    let [server, client] = pair(cx, &["ibv_rc_pingpong", "-g", "1", "-p", PORT], limited)?;
    for (role, ended) in [("server", server), ("client", client)] {
        let path = file(cx, role);
        ensure(
            ended
                .err
                .contains("Warning: no more packets are recorded in IBV_UROCE_PCAP file"),
            format!("{role}: no warning: {}", ended.err),
        )?;
        let packets = dissect(cx, &path)?;
        ensure(
            packets.len() > 5,
            format!("{role}: {} packets", packets.len()),
        )?;
    }
    Ok(())
}

fn unwritable(cx: &Context) -> Verdict {
    let name = "/nonexistent/directory/file";
    let [server, client] = pair(
        cx,
        &["ibv_rc_pingpong", "-g", "1", "-p", PORT],
        |argv, role| uroce(cx, argv, role).env("IBV_UROCE_PCAP", name),
    )?;
    for ended in [server, client] {
        let warning =
            format!("libibverbs: Warning: no packets are recorded in IBV_UROCE_PCAP file '{name}'");
        ensure(
            ended.err.matches(&warning).count() == 1,
            format!("not one warning: {}", ended.err),
        )?;
    }
    Ok(())
}

/// Runs a server and a client, and dissects what each records. Every packet that one of them sent, the other
/// has received, and later. Returns the packets of both that were sent.
fn recorded_alike(cx: &Context, argv: &[&str]) -> Result<Vec<Packet>, Failure> {
    pair(cx, argv, |argv, role| uroce(cx, argv, role))?;
    let [server, client] = ["server", "client"].map(|role| dissect(cx, &file(cx, role)));
    let (server, client) = (server?, client?);
    for packets in [&server, &client] {
        check_order(packets)?;
    }
    check_arrival(&server, &client)?;
    check_arrival(&client, &server)?;
    let sent = server.into_iter().chain(client);
    Ok(sent.filter(|packet| packet.is_sent()).collect())
}

/// Checks that the other side has received what one side sent, and later, and has received nothing
/// else.
fn check_arrival(from: &[Packet], to: &[Packet]) -> Verdict {
    let sent = first_times(from, true);
    let received = first_times(to, false);
    // The last ACKs may arrive after the peer has ended.
    let missing = sent.keys().filter(|key| !received.contains_key(*key));
    let unexplained = missing.filter(|key| key.2 != ACK).count();
    let late = |key: &Key, at: &f64| sent.get(key).is_none_or(|sent| sent > at);
    let invented = received.iter().filter(|(key, at)| late(key, at)).count();
    ensure(
        !sent.is_empty() && unexplained == 0 && invented == 0,
        format!(
            "of {} packets sent {unexplained} did not arrive, and {invented} of {} were not sent, or later",
            sent.len(),
            received.len()
        ),
    )
}

/// The destination QP, PSN and opcode of a packet.
type Key<'a> = (&'a str, &'a str, &'a str);

/// When each packet was first sent, or received, in seconds.
fn first_times(packets: &[Packet], sent: bool) -> HashMap<Key<'_>, f64> {
    let mut times = HashMap::new();
    for packet in packets.iter().filter(|packet| packet.is_sent() == sent) {
        let key = (&*packet.destination, &*packet.psn, &*packet.opcode);
        times.entry(key).or_insert(packet.at);
    }
    times
}

/// A file has each response, that is each packet with an AETH, behind the request that it answers. A NAK that
/// asks for a lost packet answers none.
fn check_order(packets: &[Packet]) -> Verdict {
    // By direction and PSN. The middle responses of a READ have no AETH, the last one has a PSN of its own.
    let mut requests = HashSet::new();
    for packet in packets {
        if packet.msn.is_empty() {
            requests.insert((packet.is_sent(), &*packet.psn));
        } else if packet.opcode != READ_LAST && !packet.is_sequence_nak() {
            ensure(
                requests.contains(&(!packet.is_sent(), &*packet.psn)),
                format!("PSN {} is answered before it is asked for", packet.psn),
            )?;
        }
    }
    Ok(())
}

/// Messages of 16 MiB: of each packet the headers are recorded, so that the writer keeps up.
fn large(cx: &Context) -> Verdict {
    const PACKETS: usize = 5 * (16 << 20) / 4096;
    let write = [
        "ib_write_bw", "-F", "-x", "1", "-m", "4096", "-s", "16777216", "-n", "5", "-p", PORT,
    ];
    pair(cx, &write, |argv, role| {
        let program = uroce(cx, argv, role);
        program.env("IBV_UROCE_PCAP_SNAPLEN", "128")
    })?;
    let cut = Dissection {
        cut_packets: true,
        ..Dissection::default()
    };
    let [server, client] = ["server", "client"].map(|role| dissect_as(cx, &file(cx, role), cut));
    let (server, client) = (server?, client?);
    for packets in [&server, &client] {
        check_order(packets)?;
        let missing: u64 = packets.iter().map(|packet| packet.missing).sum();
        ensure(missing == 0, format!("{missing} packets were not recorded"))?;
    }
    check_arrival(&client, &server)?;
    check_arrival(&server, &client)?;
    // WRITE First, Middle, Last.
    let writes = first_times(&client, true);
    let writes = writes.keys().filter(|key| ["6", "7", "8"].contains(&key.2));
    compare::same(
        ("expected", &PACKETS.to_string()),
        ("WRITE packets", &writes.count().to_string()),
    )
}

/// IBV_UROCE_PCAP_LIMIT: the newest packets are kept, in two files of half of it, without a gap.
fn limit(cx: &Context) -> Verdict {
    const LIMIT: u64 = 64 << 10;
    let many = ["ibv_rc_pingpong", "-g", "1", "-n", "200", "-p", PORT];
    pair(cx, &many, |argv, role| {
        uroce(cx, argv, role).env("IBV_UROCE_PCAP_LIMIT", "64K")
    })?;
    for role in ["server", "client"] {
        let files = [cx.dir().join(format!("{role}.old.pcapng")), file(cx, role)];
        let mut packets = Vec::new();
        for path in &files {
            let len = fs::metadata(path)?.len();
            let why = format!("{} has {len} bytes", path.display());
            ensure(len <= LIMIT / 2, why)?;
            let found = dissect(cx, path)?;
            ensure(!found.is_empty(), format!("{role}: a file without packets"))?;
            packets.extend(found);
        }
        let missing = unrecorded(&packets)?;
        ensure(missing == 0, format!("{role}: {missing} PSNs are missing"))?;
    }
    Ok(())
}

/// A disk that is slower than the program, which does not wait for it: what is missing is counted.
fn losses(cx: &Context) -> Verdict {
    let path = file(cx, "client").to_string_lossy().into_owned();
    let slow_disk = [
        &[
            "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=write",
        ][..],
        &["-e", "inject=write:delay_enter=1000000", "-P", &path],
    ]
    .concat();
    let many = [
        "ib_send_bw", "-F", "-x", "1", "-s", "65536", "-D", "5", "-p", PORT,
    ];
    pair(cx, &many, |argv, role| {
        let program = uroce(cx, argv, role);
        match role {
            "client" => program.under(slow_disk.iter().copied()),
            _ => program,
        }
    })?;
    let packets = dissect(cx, &file(cx, "client"))?;
    let missing = unrecorded(&packets)?;
    ensure(missing > 0, "all packets are recorded")?;
    let said: u64 = packets.iter().map(|packet| packet.missing).sum();
    let why = format!("{missing} PSNs are missing, and {said} packets are said to be");
    ensure(missing <= said, why)
}

/// Packets that IBV_FAULTS loses or damages are recorded, and say so; the peer records a wrong ICRC.
fn injected(cx: &Context) -> Verdict {
    const FAULTS: &str = "drop:direction=tx,opcode=send,count=1; \
        corrupt:direction=tx,opcode=send,count=1,after=8; \
        drop:direction=rx,opcode=send,count=1,after=4; \
        delay:time=1ms,direction=rx,opcode=send,count=1,after=12";
    let ping = ["ibv_rc_pingpong", "-g", "1", "-n", "20", "-p", PORT];
    pair(cx, &ping, |argv, role| {
        let program = uroce(cx, argv, role);
        match role {
            "client" => program.env("IBV_FAULTS", FAULTS),
            _ => program,
        }
    })?;
    let says = |role: &str, texts: &[&str]| {
        let found = comments(cx, &file(cx, role))?;
        let missing = texts
            .iter()
            .find(|text| !found.iter().any(|comment| comment.contains(**text)));
        match missing {
            None => Ok(()),
            Some(text) => {
                Err(Failure::new(format!("{role}: no packet says «{text}»")).with(found.join("\n")))
            }
        }
    };
    says(
        "client",
        &[
            "lost on the way by IBV_FAULTS",
            "damaged on the way by IBV_FAULTS",
            "dropped: lost on the way by IBV_FAULTS",
            "arrives later by IBV_FAULTS",
        ],
    )?;
    says("server", &["dropped: wrong ICRC"])
}

/// How many requests that the process sent are not recorded, by their PSNs: of those between the first and
/// the last. A request may be sent again, and those by UDP may be recorded after later ones.
fn unrecorded(packets: &[Packet]) -> Result<u64, Failure> {
    let sent = packets.iter();
    let sent = sent.filter(|packet| packet.is_sent() && packet.msn.is_empty());
    let mut last = 1 << 24;
    let mut psns = BTreeSet::new();
    for packet in sent {
        let psn: u64 = packet.psn.parse().map_err(|_| Failure::new("not a PSN"))?;
        // A PSN has 24 bits. This is the number that ends with them, and is nearest to the last one.
        let ahead = psn.wrapping_sub(last) & 0xff_ffff;
        last += ahead;
        if ahead >= 1 << 23 {
            last -= 1 << 24;
        }
        psns.insert(last);
    }
    let (first, last) = psns.first().zip(psns.last()).ok_or("no request")?;
    Ok(last - first + 1 - psns.len() as u64)
}

/// A process whose queue pairs are connected with each other, and its child, which opens the device again:
/// each has a file of its own.
fn fork(cx: &Context) -> Verdict {
    Testbed::Loopback.make(cx)?;
    let program = [cx.built("faults")?, "uroce0".into(), "child-opens".into()];
    let program: Vec<_> = program.iter().map(String::as_str).collect();
    uroce(cx, &program, "%p").succeed()?;
    let entries = fs::read_dir(cx.dir())?.flatten().map(|entry| entry.path());
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|end| end == "pcapng");
    let files: Vec<_> = entries.filter(is_capture).collect();
    let mut destinations = HashSet::new();
    for file in &files {
        let packets = dissect(cx, file)?;
        check_order(&packets)?;
        check_arrival(&packets, &packets)?;
        let own: HashSet<_> = packets
            .into_iter()
            .map(|packet| packet.destination)
            .collect();
        ensure(
            destinations.is_disjoint(&own),
            "parent and child have recorded packets to one queue pair",
        )?;
        destinations.extend(own);
    }
    ensure(files.len() == 2, format!("not two files: {files:?}"))
}

/// Runs `argv` as a server, and then with its address as a client, both with success. `program` makes the
/// program of a role.
fn pair(
    cx: &Context,
    argv: &[&str],
    program: impl Fn(&[&str], &str) -> Program,
) -> Result<[Ended; 2], Failure> {
    let hosts = Testbed::Loopback.make(cx)?;
    let mut server = program(argv, "server").spawn()?;
    await_server(&hosts)?;
    let client = program(&[argv, &["127.0.0.1"]].concat(), "client").succeed()?;
    let exit = server.wait(Duration::from_secs(20))?;
    let server = server.ended(exit)?;
    succeeded("server", &server)?;
    Ok([server, client])
}

fn await_server(hosts: &Hosts) -> Verdict {
    let port = PORT.parse().map_err(|_| Failure::new("PORT"))?;
    let ready = wait_until(Duration::from_secs(20), || hosts.server.listens(port));
    ensure(ready, "the server does not listen")
}

fn file(cx: &Context, role: &str) -> PathBuf {
    cx.dir().join(format!("{role}.pcapng"))
}

/// A program that records its packets, which then take UDP, although shared memory is not switched off.
fn uroce(cx: &Context, argv: &[&str], role: &str) -> Program {
    cx.program(argv.iter().copied())
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "uroce0=127.0.0.1")
        .env("IBV_UROCE_LOCAL", "1")
        .env("IBV_UROCE_PCAP", file(cx, role))
}
