//! Parses values of IBV_UROCE.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uroce::{Netdev, ParsedConfig, parse_config};

fuzz_target!(|value: &[u8]| {
    let ParsedConfig { devices, rejected } = parse_config(value);
    if ![&b""[..], b"0"].contains(&value) {
        let entries = value.split(|byte| *byte == b',').count();
        assert_eq!(devices.len() + rejected.len(), entries);
    }
    for (i, device) in devices.iter().enumerate() {
        assert!((1..64).contains(&device.name.len()) && device.name.is_ascii());
        assert!(!device.name.contains(['/', '%', '=', ',']));
        assert!(devices[..i].iter().all(|other| other.name != device.name));
        if let Netdev::Interface(name)
        | Netdev::Address {
            scope: Some(name), ..
        } = &device.netdev
        {
            assert!((1..16).contains(&name.len()) && !name.contains(['/', '\0']));
        }
    }
    assert!(
        rejected
            .iter()
            .all(|line| line.is_ascii() && !line.contains('\n'))
    );
});
