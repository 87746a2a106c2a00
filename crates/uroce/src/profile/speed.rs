//! The speed of a port: lanes and signalling rate, as verbs and sysfs name them.

/// A port's width and speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// `ibv_port_attr.active_width`.
    pub width: u8,
    /// `ibv_port_attr.active_speed_ex`. `active_speed` has 8 bits.
    pub code: u16,
    /// The rate of all lanes, in units of 100 Mb/s.
    pub rate: u32,
    /// The name of the speed in sysfs.
    pub name: &'static str,
}

const fn speed(width: u8, code: u16, rate: u32, name: &'static str) -> Speed {
    Speed {
        width,
        code,
        rate,
        name,
    }
}

/// The speeds that can be named, with what the kernel's `rate` file says (drivers/infiniband/core/sysfs.c).
/// Those of Ethernet that InfiniBand does not have are reported as mlx5 does (translate_eth_ext_proto_oper).
static SPEEDS: [Speed; 11] = [
    Speed::SDR_1X,
    speed(1, 4, 100, "10 Gb/sec (1X QDR)"),
    speed(1, 32, 250, "25 Gb/sec (1X EDR)"),
    speed(2, 4, 400, "40 Gb/sec (4X QDR)"),
    speed(1, 64, 500, "50 Gb/sec (1X HDR)"),
    speed(2, 16, 560, "56 Gb/sec (4X FDR)"),
    Speed::EDR_4X,
    Speed::HDR_4X,
    speed(2, 128, 4000, "400 Gb/sec (4X NDR)"),
    speed(2, 256, 8000, "800 Gb/sec (4X XDR)"),
    speed(4, 256, 16000, "1600 Gb/sec (8X XDR)"),
];

impl Speed {
    /// 2.5 Gb/s: what Soft-RoCE reports for an interface of unknown speed.
    pub const SDR_1X: Speed = speed(1, 1, 25, "2.5 Gb/sec (1X SDR)");
    /// 100 Gb/s.
    pub const EDR_4X: Speed = speed(2, 32, 1000, "100 Gb/sec (4X EDR)");
    /// 200 Gb/s.
    pub const HDR_4X: Speed = speed(2, 64, 2000, "200 Gb/sec (4X HDR)");

    /// The speed that a text such as `400G` names.
    pub fn parse(text: &str) -> Option<Speed> {
        let number = text.strip_suffix('G')?;
        let rate = match number {
            "2.5" => 25,
            _ if number.len() > 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) => None?,
            _ => number.parse::<u32>().ok()? * 10,
        };
        SPEEDS.iter().find(|speed| speed.rate == rate).copied()
    }

    /// The speeds that [`Speed::parse`] knows, for messages.
    pub const NAMES: &str = "2.5G, 10G, 25G, 40G, 50G, 56G, 100G, 200G, 400G, 800G, 1600G";

    /// `ibv_port_attr.active_speed`, which has no room for XDR: the kernel reports NDR then
    /// (drivers/infiniband/core/uverbs_std_types_device.c).
    pub fn code8(self) -> u8 {
        u8::try_from(self.code).unwrap_or(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes() {
        assert_eq!(Speed::parse("400G").map(|speed| speed.code), Some(128));
        assert_eq!(Speed::parse("800G").map(Speed::code8), Some(128));
        assert_eq!(Speed::parse("2.5G"), Some(Speed::SDR_1X));
        for text in ["", "G", "400", "401G", "+10G", "99999G", "4e2G"] {
            assert_eq!(Speed::parse(text), None, "{text}");
        }
        for name in Speed::NAMES.split(", ") {
            assert!(Speed::parse(name).is_some(), "{name}");
        }
        assert_eq!(Speed::NAMES.split(", ").count(), SPEEDS.len());
        for speed in &SPEEDS {
            // Lanes by the code of the width; megabits of a lane by the code of the speed.
            let lanes = [(1, 1), (2, 4), (4, 8), (8, 12), (16, 2)];
            let lanes = lanes
                .iter()
                .find(|(code, _)| *code == speed.width)
                .unwrap()
                .1;
            let lane = match speed.code {
                1 => 25,
                4 => 100,
                16 => 140,
                32 => 250,
                64 => 500,
                128 => 1000,
                256 => 2000,
                other => panic!("{other}"),
            };
            assert_eq!(lanes * lane, speed.rate, "{}", speed.name);
        }
    }
}
