//! Files of packets, as tshark dissects them.

use std::path::Path;

use crate::context::Context;
use crate::paths::text;
use crate::process::{Exit, succeeded};
use crate::verdict::{Failure, ensure};

/// A packet as tshark dissects it.
pub struct Packet {
    /// The direction, in hexadecimal: 1 for received, 2 for sent.
    pub direction: String,
    /// The BTH.
    pub opcode: String,
    pub destination: String,
    pub psn: String,
    /// The RETH's DMA length.
    pub len: String,
    /// The AETH's MSN.
    pub msn: String,
    /// The AETH's syndrome.
    syndrome: String,
    /// The time, in seconds since 1970.
    pub at: f64,
    /// Packets in front of it that are not recorded.
    pub missing: u64,
}

impl Packet {
    pub fn is_sent(&self) -> bool {
        self.direction.ends_with('2')
    }

    /// Whether it asks for a packet that was lost.
    pub fn is_sequence_nak(&self) -> bool {
        self.syndrome == SEQUENCE_NAK
    }
}

pub const ACK: &str = "17";
pub const READ_LAST: &str = "15";

/// The syndrome of a NAK of a PSN sequence error: 0b011 and the code 0.
const SEQUENCE_NAK: &str = "96";

const FIELDS: &[&str] = &[
    "frame.packet_flags_direction", "infiniband.bth.opcode", "infiniband.bth.destqp",
    "infiniband.bth.psn", "infiniband.reth.dmalen", "infiniband.aeth.msn",
    "infiniband.aeth.syndrome", "frame.time_epoch", "frame.drop_count", "ip.checksum.status",
    "udp.checksum.status", "_ws.malformed",
];

/// The peculiarities of a file, which its packets must show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dissection {
    /// The last packet may be incomplete.
    pub may_end_early: bool,
    /// Packets are recorded up to IBV_UROCE_PCAP_SNAPLEN.
    pub cut_packets: bool,
}

/// The comments of a file's packets, of those that have one.
pub fn comments(cx: &Context, file: &Path) -> Result<Vec<String>, Failure> {
    let file = text(file);
    let argv = ["tshark", "-r", &file, "-T", "fields", "-e", "frame.comment"];
    let ended = match cx.program(argv).run() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::skip("tshark is not installed"));
        }
        ended => ended?,
    };
    succeeded("tshark", &ended)?;
    let all = ended.out.lines().filter(|line| !line.is_empty());
    Ok(all.map(Into::into).collect())
}

/// The packets of a file, each of which must be RoCE, with correct checksums.
pub fn dissect(cx: &Context, file: &Path) -> Result<Vec<Packet>, Failure> {
    dissect_as(cx, file, Dissection::default())
}

pub fn dissect_as(cx: &Context, file: &Path, how: Dissection) -> Result<Vec<Packet>, Failure> {
    const CUT: &str = "appears to have been cut short in the middle of a packet";
    let file = text(file);
    let mut argv = vec!["tshark", "-r", &file, "-T", "fields"];
    argv.extend([
        "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
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
    if !(how.may_end_early && is_cut) {
        succeeded("tshark", &ended)?;
    }
    let packets = ended.out.lines().map(|line| packet(line, how));
    packets.collect()
}

fn packet(line: &str, how: Dissection) -> Result<Packet, Failure> {
    let fields: Vec<String> = line.split('\t').map(Into::into).collect();
    let [
        direction,
        opcode,
        destination,
        psn,
        len,
        msn,
        syndrome,
        at,
        missing,
        ip,
        udp,
        malformed,
    ] = fields
        .try_into()
        .map_err(|_| Failure::new(format!("tshark printed {line:?}")))?;
    ensure(
        !psn.is_empty() && (malformed.is_empty() || how.cut_packets),
        format!("not dissected as RoCE: {line:?}"),
    )?;
    ensure(
        ip == "1" && (udp == "1" || how.cut_packets),
        format!("wrong checksum: {line:?}"),
    )?;
    let at = at.parse();
    Ok(Packet {
        direction,
        opcode,
        destination,
        psn,
        len,
        msn,
        syndrome,
        at: at.map_err(|_| Failure::new(format!("no time: {line:?}")))?,
        missing: missing.parse().unwrap_or(0),
    })
}
