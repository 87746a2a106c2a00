//! Fragments are read as they were written.

use proptest::prelude::*;

use super::*;

const TRANSPORTS: [Transport; 3] = [Transport::Rc, Transport::Uc, Transport::Xrc];
const PARTS: [Part; 4] = [Part::First, Part::Middle, Part::Last, Part::Only];

/// The bytes of a fragment, as its receiver finds them: what is behind them may be anything.
fn write(
    (operation, part): (Operation, Part),
    payload: &[u8],
    fill: impl FnOnce(&mut FragmentWriter<'_>),
) -> Vec<u8> {
    let mut buffer = vec![0x5a; HEAD_LEN + payload.len()];
    let to = (0xab_cdef, Psn::new(0x12_3456));
    let mut fragment = FragmentWriter::new(operation, part, to, 77, &mut buffer).unwrap();
    fill(&mut fragment);
    fragment
        .payload(payload.len())
        .unwrap()
        .copy_from_slice(payload);
    let len = fragment.len(payload.len());
    buffer.truncate(len);
    buffer
}

fn head(bytes: &[u8]) -> [u8; HEAD_LEN] {
    let mut head = [0xa5; HEAD_LEN];
    let len = bytes.len().min(HEAD_LEN);
    head[..len].copy_from_slice(&bytes[..len]);
    head
}

proptest! {
    #[test]
    fn a_fragment_is_read_as_it_was_written(
        code in 0..OPERATIONS.len(),
        part in 0..4usize,
        numbers: (u64, u32, u32, u64, u64, u32, u32),
        payload in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let (operation, part) = (OPERATIONS[code], PARTS[part]);
        let (va, rkey, len, compare, swap_add, imm, srqn) = numbers;
        let bytes = write((operation, part), &payload, |to| {
            match header_len(operation) {
                56 => to.atomic(&AtomicEth { va, rkey, compare, swap_add }),
                40 => to.reth(&Reth { va, rkey, len }),
                32 => to.original_value(va),
                _ => {}
            }
            to.imm_or_rkey(imm);
            to.xrc_srqn(srqn);
            to.solicited();
            to.transport(TRANSPORTS[code % 3]);
        });
        let head = head(&bytes);
        let fragment = Fragment::parse(&head, &bytes).unwrap();
        prop_assert_eq!((fragment.operation(), fragment.part()), (operation, part));
        prop_assert_eq!(fragment.transport(), TRANSPORTS[code % 3]);
        prop_assert_eq!((fragment.dest_qpn(), fragment.psn().get()), (0xab_cdef, 0x12_3456));
        prop_assert_eq!((fragment.offset(), fragment.payload), (77, &payload[..]));
        prop_assert!(fragment.is_solicited());
        prop_assert_eq!(fragment.xrc_srqn(), srqn);
        let has = |has: bool, imm: u32| has.then_some(imm);
        let is_imm = matches!(operation, Operation::SendImm | Operation::WriteImm);
        prop_assert_eq!(fragment.imm(), has(is_imm && fragment.ends(), imm));
        let is_inv = operation == Operation::SendInv;
        prop_assert_eq!(fragment.invalidated_rkey(), has(is_inv && fragment.ends(), imm));
        let reth = (header_len(operation) == 40 && fragment.starts()).then_some((va, rkey, len));
        prop_assert_eq!(fragment.reth().map(|reth| (reth.va, reth.rkey, reth.len)), reth);
        if let Some(atomic) = fragment.atomic() {
            prop_assert_eq!((atomic.va, atomic.rkey), (va, rkey));
            prop_assert_eq!((atomic.compare, atomic.swap_add), (compare, swap_add));
        }
        if operation == Operation::AtomicAck {
            prop_assert_eq!(fragment.original_value(), va);
        }
        let copy = FragmentCopy::try_new(&fragment).unwrap();
        prop_assert_eq!(copy.fragment().payload, &payload[..]);
        prop_assert_eq!(copy.fragment().psn(), fragment.psn());
    }

    /// Whatever a peer writes, it is read or refused.
    #[test]
    fn any_bytes_are_a_fragment_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        first in 0..20u8,
    ) {
        let mut bytes = bytes;
        bytes.iter_mut().take(1).for_each(|byte| *byte = first);
        let head = head(&bytes);
        if let Some(fragment) = Fragment::parse(&head, &bytes) {
            prop_assert!(fragment.payload.len() <= bytes.len());
            let _ = (fragment.reth(), fragment.atomic(), fragment.feth(), fragment.acknowledgment());
            let _ = (fragment.is_nak(), fragment.imm(), fragment.invalidated_rkey());
        }
    }
}

#[test]
fn acknowledgments() {
    for kind in [
        AethKind::Ack { credits: 31 },
        AethKind::RnrNak { timer: 12 },
        AethKind::Nak(crate::wire::NakCode::RemoteAccess),
    ] {
        let ack = (Operation::Ack, Part::Only);
        let bytes = write(ack, &[], |to| to.acknowledgment(kind));
        let head = head(&bytes);
        let fragment = Fragment::parse(&head, &bytes).unwrap();
        assert_eq!(fragment.acknowledgment(), Some(kind));
        assert!(fragment.is_response());
        assert_eq!(fragment.is_nak(), !matches!(kind, AethKind::Ack { .. }));
    }
}
