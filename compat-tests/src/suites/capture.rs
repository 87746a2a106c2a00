//! The files of IBV_UROCE_PCAP: what two processes record of one connection, as tshark dissects it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::{Case, Place};
use crate::context::{Context, Library, succeeded};
use crate::process::{Ended, Exit, Program, wait_until};
use crate::testbed::{Hosts, Testbed};
use crate::verdict::{Failure, Verdict, ensure};

pub fn cases() -> Vec<Case> {
    let case = |case: Case| case.place(Place::Namespace);
    vec![
        case(Case::new("uroce/capture/sends", sends)),
        case(Case::new("uroce/capture/reads", reads)),
        case(Case::new("uroce/capture/killed", killed)),
        case(Case::new("uroce/capture/file-size-limit", file_size_limit)),
        case(Case::new("uroce/capture/unwritable", unwritable)),
    ]
}

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
        "ib_read_lat",
        "-F",
        "-x",
        "1",
        "-s",
        "2000",
        "-n",
        "5",
        "-p",
        PORT,
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
    for path in &files {
        // A signal that kills ends a write(2) between two pages: the last packet may be incomplete.
        let packets = dissect_until(cx, path, true)?;
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

/// A packet as tshark dissects it.
struct Packet {
    /// In hexadecimal: 1 for received, 2 for sent.
    direction: String,
    /// The BTH.
    opcode: String,
    destination: String,
    psn: String,
    /// The RETH's DMA length.
    len: String,
    /// The AETH's MSN.
    msn: String,
}

const FIELDS: [&str; 9] = [
    "frame.packet_flags_direction",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.reth.dmalen",
    "infiniband.aeth.msn",
    "ip.checksum.status",
    "udp.checksum.status",
    "_ws.malformed",
];

/// Runs a server and a client, and dissects what each records. Every packet that one of them sent, the other
/// has received. Returns the packets of both that were sent.
fn recorded_alike(cx: &Context, argv: &[&str]) -> Result<Vec<Packet>, Failure> {
    pair(cx, argv, |argv, role| uroce(cx, argv, role))?;
    let [server, client] = ["server", "client"].map(|role| dissect(cx, &file(cx, role)));
    let (server, client) = (server?, client?);
    let keys = |packets: &[Packet], direction: &str| {
        let found = packets
            .iter()
            .filter(|packet| packet.direction.ends_with(direction));
        let mut keys: Vec<_> = found
            .map(|packet| [&packet.destination, &packet.psn, &packet.opcode].map(String::clone))
            .collect();
        keys.sort();
        keys
    };
    for (from, to, name) in [(&server, &client, "server"), (&client, &server, "client")] {
        let (sent, received) = (keys(from, "2"), keys(to, "1"));
        // The last ACKs may arrive after the peer has ended.
        let missing = sent.iter().filter(|key| !received.contains(key));
        let unexplained = missing.filter(|key| key[2] != "17").count();
        let invented = received.iter().filter(|key| !sent.contains(key)).count();
        ensure(
            !sent.is_empty() && unexplained == 0 && invented == 0,
            format!("what the {name} sent is not what its peer received"),
        )?;
    }
    let sent = server.into_iter().chain(client);
    Ok(sent
        .filter(|packet| packet.direction.ends_with('2'))
        .collect())
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
    let client = program(&[argv, &["127.0.0.1"]].concat(), "client").run()?;
    succeeded("client", &client)?;
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

fn uroce(cx: &Context, argv: &[&str], role: &str) -> Program {
    cx.program(argv.iter().copied())
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "uroce0=127.0.0.1")
        .env("IBV_UROCE_PCAP", file(cx, role))
}

/// The packets of a file, each of which must be RoCE, with correct checksums.
fn dissect(cx: &Context, path: &Path) -> Result<Vec<Packet>, Failure> {
    dissect_until(cx, path, false)
}

/// The packets of a file, whose last one may be incomplete if `may_be_cut`.
fn dissect_until(cx: &Context, path: &Path, may_be_cut: bool) -> Result<Vec<Packet>, Failure> {
    const CUT: &str = "appears to have been cut short in the middle of a packet";
    let path = path.to_string_lossy().into_owned();
    let mut argv = vec!["tshark", "-r", &path, "-T", "fields"];
    argv.extend([
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
    ]);
    FIELDS.iter().for_each(|field| argv.extend(["-e", field]));
    let ended = match cx.program(argv).run() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::skip("tshark is not installed"));
        }
        ended => ended?,
    };
    // A file that is cut off is an error.
    let is_cut = ended.exit == Exit::Code(2) && ended.err.contains(CUT);
    if !(may_be_cut && is_cut) {
        succeeded("tshark", &ended)?;
    }
    ended.out.lines().map(packet).collect()
}

fn packet(line: &str) -> Result<Packet, Failure> {
    let fields: Vec<String> = line.split('\t').map(Into::into).collect();
    let [
        direction,
        opcode,
        destination,
        psn,
        len,
        msn,
        ip,
        udp,
        malformed,
    ] = fields
        .try_into()
        .map_err(|_| Failure::new(format!("tshark printed {line:?}")))?;
    ensure(
        !psn.is_empty() && malformed.is_empty(),
        format!("not dissected as RoCE: {line:?}"),
    )?;
    ensure(ip == "1" && udp == "1", format!("wrong checksum: {line:?}"))?;
    Ok(Packet {
        direction,
        opcode,
        destination,
        psn,
        len,
        msn,
    })
}
