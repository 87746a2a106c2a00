//! Commands as bytes (rdma/rdma_user_cm.h, ABI version 4): how long each is, and its fields. Pure.

/// The commands, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    CreateId,
    DestroyId,
    BindIp,
    ResolveIp,
    ResolveRoute,
    QueryRoute,
    Connect,
    Listen,
    Accept,
    Reject,
    Disconnect,
    InitQpAttr,
    GetEvent,
    SetOption,
    Notify,
    JoinIpMcast,
    LeaveMcast,
    MigrateId,
    Query,
    Bind,
    ResolveAddr,
    JoinMcast,
    ResolveIbService,
    WriteCmEvent,
}

/// Numbers of commands are below this.
pub const COMMANDS: u32 = 25;

impl Command {
    /// The command of a number below [`COMMANDS`]; None for one that no kernel implements.
    pub fn of(number: u32) -> Option<Command> {
        use Command::*;
        Some(match number {
            0 => CreateId,
            1 => DestroyId,
            2 => BindIp,
            3 => ResolveIp,
            4 => ResolveRoute,
            5 => QueryRoute,
            6 => Connect,
            7 => Listen,
            8 => Accept,
            9 => Reject,
            10 => Disconnect,
            11 => InitQpAttr,
            12 => GetEvent,
            14 => SetOption,
            15 => Notify,
            16 => JoinIpMcast,
            17 => LeaveMcast,
            18 => MigrateId,
            19 => Query,
            20 => Bind,
            21 => ResolveAddr,
            22 => JoinMcast,
            23 => ResolveIbService,
            24 => WriteCmEvent,
            _ => return None,
        })
    }

    /// The number of the command.
    pub fn number(self) -> u32 {
        let found = (0..COMMANDS).find(|number| Command::of(*number) == Some(self));
        found.unwrap_or(COMMANDS)
    }

    /// The length of its structure, in bytes.
    pub fn len(self) -> usize {
        use Command::*;
        match self {
            Disconnect => 4,
            GetEvent | Listen | Notify | ResolveRoute => 8,
            DestroyId | LeaveMcast | QueryRoute | Query | InitQpAttr | MigrateId => 16,
            CreateId | SetOption => 24,
            BindIp => 40,
            JoinIpMcast => 48,
            ResolveIp => 64,
            ResolveIbService => 88,
            Bind => 136,
            JoinMcast => 152,
            Reject => 264,
            ResolveAddr => 272,
            Connect => 288,
            Accept => 296,
            WriteCmEvent => 320,
        }
    }

    /// The shortest structure that it accepts; None if the program's length is not checked, and all of the
    /// structure is read.
    pub fn min_len(self) -> Option<usize> {
        // The options of enhanced connection establishment are at the end, and may be missing.
        match self {
            Command::Connect | Command::Accept => Some(self.len() - 8),
            _ => None,
        }
    }

    /// Where the number of the id is in the structure; None if it names no id.
    pub fn id_at(self) -> Option<usize> {
        use Command::*;
        match self {
            CreateId | GetEvent | LeaveMcast => None,
            Bind | ResolveAddr | ResolveRoute | Listen | Reject | Disconnect | Notify
            | ResolveIbService | WriteCmEvent => Some(0),
            DestroyId | QueryRoute | Query | InitQpAttr | MigrateId | SetOption => Some(8),
            JoinMcast => Some(16),
            BindIp => Some(36),
            JoinIpMcast => Some(44),
            ResolveIp => Some(56),
            Connect => Some(272),
            Accept => Some(280),
        }
    }

    /// Where the address of the response is in the structure; None if there is no response.
    pub fn response_at(self) -> Option<usize> {
        use Command::*;
        match self {
            CreateId => Some(8),
            DestroyId | LeaveMcast | QueryRoute | Query | InitQpAttr | MigrateId | GetEvent
            | JoinIpMcast | JoinMcast => Some(0),
            _ => None,
        }
    }
}

/// The structure of a command. What the program has left out reads as zeros.
#[derive(Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    fn array<const LEN: usize>(self, at: usize) -> [u8; LEN] {
        let found = self.0.get(at..).and_then(|rest| rest.first_chunk());
        found.copied().unwrap_or([0; LEN])
    }

    /// The byte at offset `at`.
    pub fn u8(self, at: usize) -> u8 {
        let [byte] = self.array(at);
        byte
    }

    /// The 16-bit field at offset `at`, in host byte order.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    /// The 32-bit field at offset `at`, in host byte order.
    pub fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    /// The 64-bit field at offset `at`, in host byte order.
    pub fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    /// The bytes from an offset on.
    pub fn from(self, at: usize) -> &'a [u8] {
        self.0.get(at..).unwrap_or_default()
    }
}

/// `rdma_ucm_conn_param`.
pub struct ConnectionParameters<'a> {
    pub qpn: u32,
    pub private: &'a [u8],
    pub srq: bool,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: bool,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub valid: bool,
    /// `rdma_ucm_ece`.
    pub vendor_id: u32,
    pub options: u32,
}

impl<'a> ConnectionParameters<'a> {
    /// The parameters at an offset, and the options of enhanced connection establishment at another.
    pub fn parse(input: Input<'a>, at: usize, options_at: usize) -> ConnectionParameters<'a> {
        let tail = at + 8 + 256;
        let private = input.from(at + 8);
        let len = usize::from(input.u8(tail)).min(private.len());
        ConnectionParameters {
            qpn: input.u32(at),
            private: &private[..len],
            srq: input.u8(tail + 1) != 0,
            responder_resources: input.u8(tail + 2),
            initiator_depth: input.u8(tail + 3),
            flow_control: input.u8(tail + 4) != 0,
            retry_count: input.u8(tail + 5),
            rnr_retry_count: input.u8(tail + 6),
            valid: input.u8(tail + 7) != 0,
            vendor_id: input.u32(options_at),
            options: input.u32(options_at + 4),
        }
    }
}

/// A structure that is being written, field by field.
#[derive(Default)]
pub struct ReplyWriter(pub Vec<u8>);

impl ReplyWriter {
    /// Appends bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> ReplyWriter {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a byte.
    pub fn u8(self, value: u8) -> ReplyWriter {
        self.bytes(&[value])
    }

    /// Appends a 16-bit field in host byte order.
    pub fn u16(self, value: u16) -> ReplyWriter {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a 32-bit field in host byte order.
    pub fn u32(self, value: u32) -> ReplyWriter {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a 64-bit field in host byte order.
    pub fn u64(self, value: u64) -> ReplyWriter {
        self.bytes(&value.to_ne_bytes())
    }

    /// Zeros up to an offset.
    pub fn pad_to(mut self, len: usize) -> ReplyWriter {
        self.0.resize(len, 0);
        self
    }

    /// A socket address in a field of `len` bytes.
    pub fn address(mut self, address: Option<&super::address::Address>, len: usize) -> ReplyWriter {
        let at = self.0.len();
        self.0.resize(at + len, 0);
        if let Some(address) = address {
            address.write(&mut self.0[at..]);
        }
        self
    }
}
