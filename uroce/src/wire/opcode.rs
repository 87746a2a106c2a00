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

/// Which part of a message a packet is. Requests and answers of one packet are `Only`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    First,
    Middle,
    Last,
    Only,
}
