//! Checks of what must hold after a schedule.

use super::*;

/// Completions and memory are what they must be.
pub fn check(case: &Case, network: &mut Network) -> Result<(), TestCaseError> {
    let connected = (network.sides.iter()).all(|side| side.qp.state() == QpState::Rts);
    prop_assert!(connected || case.timeout != 0, "failed without a timeout");
    for side in 0..2 {
        let messages = &case.messages[side];
        let done = check_sends(messages, network, side)?;
        if connected {
            prop_assert_eq!(done, messages.len());
        }
        check_receives(case, network, side, done)?;
        check_atomics(messages, network, side, done)?;
        check_read_data(messages, network, side, done);
        if connected {
            check_written(messages, network, side);
        }
        prop_assert_eq!(network.sides[side].qp.send_depth(), 0);
    }
    Ok(())
}

/// Send completions are in order. Returns how many requests succeeded.
fn check_sends(
    messages: &[Transfer],
    network: &Network,
    side: usize,
) -> Result<usize, TestCaseError> {
    let got = network.sides[side].hca.statuses(WorkQueue::Send);
    let failure = got.iter().find(|(_, status)| *status != IBV_WC_SUCCESS);
    let done = failure.map_or(messages.len(), |(id, _)| *id as usize);
    if let Some((_, status)) = failure {
        let allowed = [IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR].contains(status);
        prop_assert!(allowed, "failed with {status}");
    }
    let expected: Vec<_> = (messages.iter().enumerate())
        .filter(|(index, message)| *index >= done || message.signaled)
        .map(|(index, _)| {
            let status = match index.cmp(&done) {
                core::cmp::Ordering::Less => IBV_WC_SUCCESS,
                core::cmp::Ordering::Equal => failure.map_or(0, |failure| failure.1),
                core::cmp::Ordering::Greater => IBV_WC_WR_FLUSH_ERR,
            };
            (index as u64, status)
        })
        .collect();
    prop_assert_eq!(got, expected);
    Ok(done)
}

/// The peer received each message once, in order.
fn check_receives(
    case: &Case,
    network: &mut Network,
    side: usize,
    done: usize,
) -> Result<(), TestCaseError> {
    let peer = 1 - side;
    let completions: Vec<Completion> = (network.sides[peer].hca.completions.iter())
        .filter(|(queue, completion)| {
            *queue == WorkQueue::Recv && completion.status == IBV_WC_SUCCESS
        })
        .map(|(_, completion)| *completion)
        .collect();
    let messages = case.messages[side].iter().enumerate();
    let consuming: Vec<_> = messages
        .filter(|(_, message)| message.consumes_recv_wqe())
        .collect();
    let least = consuming.iter().filter(|(index, _)| *index < done).count();
    prop_assert!((least..=consuming.len()).contains(&completions.len()));
    for (number, (completion, (index, message))) in completions.iter().zip(&consuming).enumerate() {
        prop_assert_eq!(completion.wr_id, number as u64);
        prop_assert_eq!(completion.byte_len, message.len);
        let (opcode, imm) = match message.kind {
            MessageKind::Write { .. } => (IBV_WC_RECV_RDMA_WITH_IMM, true),
            MessageKind::Send { imm } => (IBV_WC_RECV, imm),
            _ => unreachable!(),
        };
        prop_assert_eq!(completion.opcode, opcode);
        if imm {
            prop_assert_eq!(completion.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
            prop_assert_eq!(completion.imm_or_rkey, 0x1000 + *index as u32);
        }
        if opcode == IBV_WC_RECV {
            let got = bytes(network, peer, place(RECEIVED, number as u64), message.len);
            assert!(got == expected(side, SENT, *index as u64, message.len));
        }
    }
    Ok(())
}

/// Each atomic was executed once and returned the original value.
fn check_atomics(
    messages: &[Transfer],
    network: &mut Network,
    side: usize,
    done: usize,
) -> Result<(), TestCaseError> {
    let word = |network: &mut Network, side, offset| {
        u64::from_ne_bytes(bytes(network, side, offset, 8).try_into().unwrap())
    };
    for (kind, at) in [(MessageKind::Add, COUNTER), (MessageKind::Swap, CHAIN)] {
        let same = |message: &Transfer| {
            core::mem::discriminant(&message.kind) == core::mem::discriminant(&kind)
        };
        let all = messages
            .iter()
            .enumerate()
            .filter(|(_, message)| same(message));
        let all: Vec<usize> = all.map(|(index, _)| index).collect();
        let complete = all.iter().filter(|index| **index < done).count();
        let executed = word(network, 1 - side, at) as usize;
        prop_assert!((complete..=all.len()).contains(&executed));
        for (number, index) in all.iter().enumerate().take(complete) {
            let got = word(network, side, place(RESPONSE, *index as u64));
            prop_assert_eq!(got, number as u64);
        }
    }
    let changes = |message: &&Transfer| {
        matches!(
            message.kind,
            MessageKind::Add | MessageKind::Swap | MessageKind::AtomicWrite
        )
    };
    let least = messages[..done].iter().filter(changes).count() as u64;
    let most = messages.iter().filter(changes).count() as u64;
    prop_assert!((least..=most).contains(&network.sides[1 - side].hca.atomics));
    Ok(())
}

fn check_read_data(messages: &[Transfer], network: &mut Network, side: usize, done: usize) {
    for (index, message) in messages[..done].iter().enumerate() {
        if matches!(message.kind, MessageKind::Read) {
            let got = bytes(network, side, place(RESPONSE, index as u64), message.len);
            assert!(got == expected(1 - side, READ, index as u64, message.len));
        }
    }
}

/// The written memory holds what the last message wrote.
fn check_written(messages: &[Transfer], network: &mut Network, side: usize) {
    let mut slots = [const { [0; SLOT as usize] }; WRITTEN_SLOTS as usize];
    let mut word = 0;
    for (index, message) in messages.iter().enumerate() {
        match message.kind {
            MessageKind::Write { .. } => {
                slots[index % 3][..message.len as usize].copy_from_slice(&expected(
                    side,
                    SENT,
                    index as u64,
                    message.len,
                ));
            }
            MessageKind::AtomicWrite => word = index as u64 + 1,
            _ => {}
        }
    }
    for (index, slot) in slots.iter().enumerate() {
        assert!(bytes(network, 1 - side, place(WRITTEN, index as u64), SLOT) == slot);
    }
    assert!(bytes(network, 1 - side, WORD, 8) == word.to_ne_bytes());
}
