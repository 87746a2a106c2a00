//! Entry points of the fuzz targets: any MAD, and any sequence of commands and messages.

use std::net::Ipv4Addr;

use super::ucma::fake::Process;
use super::ucma::input::{COMMANDS, Command};
use roce::cm::agent::Incoming;
use roce::cm::mad::{CmMad, MAD_LEN, Mad};
use roce::engine::Time;

/// The bytes as a MAD: what parses is written to bytes that parse to the same.
pub fn mad(data: &[u8]) {
    let mad = mad_of(data);
    if let Some(parsed) = CmMad::parse(&mad) {
        assert_eq!(CmMad::parse(&parsed.bytes()), Some(parsed));
    }
}

/// The first bytes of a MAD of the communication manager; the rest is zeros.
fn mad_of(data: &[u8]) -> Mad {
    let mut mad = [0; MAD_LEN];
    let len = data.len().min(MAD_LEN - 4);
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[4..4 + len].copy_from_slice(&data[..len]);
    // Otherwise few inputs have one of the eleven attributes.
    (mad[16], mad[17]) = (0, 0x10 | mad[17] & 0xf);
    mad
}

/// The bytes as commands of a process, messages of a peer, and pauses.
pub fn commands(mut data: &[u8]) {
    let address = Ipv4Addr::new(10, 0, 0, 1).into();
    let mut process = Process::new(1, address, &Default::default());
    while let [kind, len, rest @ ..] = data {
        let len = usize::from(*len).min(rest.len());
        let (input, rest) = rest.split_at(len);
        data = rest;
        match u32::from(*kind) {
            number @ 0..COMMANDS => {
                let Some(command) = Command::of(number) else {
                    continue;
                };
                let mut bytes = input.to_vec();
                bytes.resize(command.len(), 0);
                let file = 1 + u64::from(input.first().is_some_and(|first| first & 0x80 != 0));
                let _ = process.call(file, command, &bytes, 512);
            }
            0x80.. => {
                let message = Incoming {
                    src: [2; 16],
                    dst: roce::wire::gid_of(address),
                    mad: mad_of(input),
                };
                if let Some(mad) = process.manager.receive(&message, process.now) {
                    process.manager.reject_orphan(&message, &mad);
                }
            }
            pause => {
                process.now = Time(process.now.0.saturating_add(1 << (pause & 0x3f)));
                process.manager.handle_timeouts(process.now);
            }
        }
        process.manager.take_outgoing();
    }
    for file in [1, 2] {
        process.manager.close(file, process.now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            super::mad(&data);
            super::commands(&data);
        }

        #[test]
        fn commands_on_few_ids(
            steps in prop::collection::vec((0_u8..26, prop::collection::vec(0_u8..3, 0..200)), 0..40),
        ) {
            let mut data = Vec::new();
            for (kind, input) in steps {
                data.extend([kind, input.len() as u8]);
                data.extend(input);
            }
            super::commands(&data);
        }
    }
}
