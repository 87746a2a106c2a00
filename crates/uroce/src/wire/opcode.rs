//! Operation codes (specification 9.2.1, table 38; annex A19 for flush and atomic write).

/// The eight bits of an operation code; see [`Opcode::parts`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opcode(pub u8);

/// The transport service an opcode belongs to: its upper three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    Rc,
    Uc,
    Ud,
    Xrc,
}

/// What a packet does, whichever part of a message it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    Send,
    SendImm,
    SendInv,
    Write,
    WriteImm,
    ReadRequest,
    ReadResponse,
    Ack,
    AtomicAck,
    CmpSwap,
    FetchAdd,
    Flush,
    AtomicWrite,
}

impl Operation {
    /// It is done to memory, and the program there is not told.
    pub fn is_one_sided(self) -> bool {
        use Operation::*;
        matches!(
            self,
            Write | ReadRequest | CmpSwap | FetchAdd | Flush | AtomicWrite
        )
    }
}

/// Which part of a message a packet is. Requests and answers of one packet are `Only`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    First,
    Middle,
    Last,
    Only,
}

/// The lower five bits, which mean the same in all transport services that have them.
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

/// What each opcode is.
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
        i += 1;
    }
    table
};

impl Opcode {
    /// The opcode of one part of a message. Of a SEND or WRITE with something at its end, the first and
    /// middle packets have the opcodes of a plain one; what always fits one packet is `Only`, whatever
    /// `part` says. (A service that lacks the operation gives an opcode whose [`Opcode::parts`] is None.)
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
        };
        Opcode(base | code)
    }

    /// What the opcode means; None if it is reserved, or of a service that this device has not.
    pub const fn parts(self) -> Option<Parts> {
        TABLE[self.0 as usize]
    }
}
