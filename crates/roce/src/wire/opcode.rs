//! Opcodes (specification 9.2.1, table 38; annex A19 for FLUSH and ATOMIC WRITE).

/// The OpCode field of the BTH; [`Opcode::parts`] decodes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opcode(pub u8);

/// The transport service of an opcode: its upper three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
}

/// The operation of a packet, whatever its position in the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// SEND with invalidate.
    SendInv,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge: ACK, NAK or RNR NAK.
    Ack,
    /// ATOMIC acknowledge.
    AtomicAck,
    /// Compare and swap.
    CmpSwap,
    /// Fetch and add.
    FetchAdd,
    /// FLUSH.
    Flush,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// An opcode of a reliable service that the specification reserves: an invalid request.
    Reserved,
}

impl Operation {
    /// Whether the responder executes it without a completion there.
    pub fn is_one_sided(self) -> bool {
        use Operation::*;
        matches!(
            self,
            Write | ReadRequest | CmpSwap | FetchAdd | Flush | AtomicWrite
        )
    }
}

/// The position of a packet in its message. A message of one packet is `Only`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The first of several packets.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets.
    Last,
    /// The only packet.
    Only,
}

/// The lower five bits of opcodes. They mean the same in all transport services that have them.
const CODES: [(u8, Operation, Part); 25] = [
    (0x00, Operation::Send, Part::First),
    (0x01, Operation::Send, Part::Middle),
    (0x02, Operation::Send, Part::Last),
    (0x03, Operation::SendImm, Part::Last),
    (0x04, Operation::Send, Part::Only),
    (0x05, Operation::SendImm, Part::Only),
    (0x06, Operation::Write, Part::First),
    (0x07, Operation::Write, Part::Middle),
    (0x08, Operation::Write, Part::Last),
    (0x09, Operation::WriteImm, Part::Last),
    (0x0a, Operation::Write, Part::Only),
    (0x0b, Operation::WriteImm, Part::Only),
    (0x0c, Operation::ReadRequest, Part::Only),
    (0x0d, Operation::ReadResponse, Part::First),
    (0x0e, Operation::ReadResponse, Part::Middle),
    (0x0f, Operation::ReadResponse, Part::Last),
    (0x10, Operation::ReadResponse, Part::Only),
    (0x11, Operation::Ack, Part::Only),
    (0x12, Operation::AtomicAck, Part::Only),
    (0x13, Operation::CmpSwap, Part::Only),
    (0x14, Operation::FetchAdd, Part::Only),
    (0x16, Operation::SendInv, Part::Last),
    (0x17, Operation::SendInv, Part::Only),
    (0x1c, Operation::Flush, Part::Only),
    (0x1d, Operation::AtomicWrite, Part::Only),
];

type Parts = (Transport, Operation, Part);

/// The meaning of each opcode.
const TABLE: [Option<Parts>; 256] = {
    let services = [
        (0x00, Transport::Rc),
        (0x20, Transport::Uc),
        (0x60, Transport::Ud),
        (0xa0, Transport::Xrc),
    ];
    let mut table = [None; 256];
    let mut i = 0;
    while i < services.len() {
        let (base, transport) = services[i];
        let mut k = 0;
        while k < CODES.len() {
            let (code, operation, part) = CODES[k];
            let exists = match transport {
                Transport::Rc | Transport::Xrc => true,
                Transport::Uc => code <= 0x0b,
                Transport::Ud => code == 0x04 || code == 0x05,
            };
            if exists {
                table[base + code as usize] = Some((transport, operation, part));
            }
            k += 1;
        }
        let mut code = 0;
        while code < 0x20 && matches!(transport, Transport::Rc | Transport::Xrc) {
            if table[base + code].is_none() {
                table[base + code] = Some((transport, Operation::Reserved, Part::Only));
            }
            code += 1;
        }
        i += 1;
    }
    table
};

impl Opcode {
    /// A SEND of one packet, of a reliable connection.
    pub const RC_SEND_ONLY: Opcode = Opcode::new(Transport::Rc, Operation::Send, Part::Only);
    /// An acknowledge of a reliable connection.
    pub const RC_ACK: Opcode = Opcode::new(Transport::Rc, Operation::Ack, Part::Only);
    /// A congestion notification packet (annex A17). It belongs to no service.
    pub const CNP: Opcode = Opcode(0x81);
    /// A datagram without immediate data.
    pub const UD_SEND_ONLY: Opcode = Opcode::new(Transport::Ud, Operation::Send, Part::Only);

    /// The opcode of a packet. The first and middle packets of a SEND or WRITE with immediate data or
    /// invalidate have the opcodes of a plain SEND or WRITE. Operations that always are one packet ignore
    /// `part`. If the service lacks the operation, [`Opcode::parts`] of the result is None.
    pub const fn new(transport: Transport, operation: Operation, part: Part) -> Opcode {
        let base = match transport {
            Transport::Rc => 0x00,
            Transport::Uc => 0x20,
            Transport::Ud => 0x60,
            Transport::Xrc => 0xa0,
        };
        let code = match (operation, part) {
            (Operation::Send | Operation::SendImm | Operation::SendInv, Part::First) => 0x00,
            (Operation::Send | Operation::SendImm | Operation::SendInv, Part::Middle) => 0x01,
            (Operation::Send, Part::Last) => 0x02,
            (Operation::SendImm, Part::Last) => 0x03,
            (Operation::Send, Part::Only) => 0x04,
            (Operation::SendImm, Part::Only) => 0x05,
            (Operation::Write | Operation::WriteImm, Part::First) => 0x06,
            (Operation::Write | Operation::WriteImm, Part::Middle) => 0x07,
            (Operation::Write, Part::Last) => 0x08,
            (Operation::WriteImm, Part::Last) => 0x09,
            (Operation::Write, Part::Only) => 0x0a,
            (Operation::WriteImm, Part::Only) => 0x0b,
            (Operation::ReadRequest, _) => 0x0c,
            (Operation::ReadResponse, Part::First) => 0x0d,
            (Operation::ReadResponse, Part::Middle) => 0x0e,
            (Operation::ReadResponse, Part::Last) => 0x0f,
            (Operation::ReadResponse, Part::Only) => 0x10,
            (Operation::Ack, _) => 0x11,
            (Operation::AtomicAck, _) => 0x12,
            (Operation::CmpSwap, _) => 0x13,
            (Operation::FetchAdd, _) => 0x14,
            (Operation::SendInv, Part::Last) => 0x16,
            (Operation::SendInv, Part::Only) => 0x17,
            (Operation::Flush, _) => 0x1c,
            (Operation::AtomicWrite, _) => 0x1d,
            (Operation::Reserved, _) => 0x1f,
        };
        Opcode(base | code)
    }

    /// The meaning of the opcode; None if it is of a transport service that uroce lacks, or reserved in an
    /// unreliable one.
    #[inline]
    pub const fn parts(self) -> Option<Parts> {
        TABLE[self.0 as usize]
    }
}
