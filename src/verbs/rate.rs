//! Conversion of static rates, `enum ibv_rate`, to multiples of 2.5 Gb/s and to Mb/s, and back.

use libc::c_int;

use crate::abi::*;

/// Defines the four functions from one table: a rate, its Mb/s, and its multiple of 2.5 Gb/s. Rates of
/// lanes of 14.0625 and 25.78125 Gb/s have no multiple; for faster lanes it is that of the nominal rate.
macro_rules! rates {
    ($($rate:ident: $mbps:literal $(, $mult:literal)?;)+) => {
        /// The rate as a multiple of 2.5 Gb/s, or -1 (ibv_rate_to_mult(3)).
        pub extern "C" fn ibv_rate_to_mult(rate: ibv_rate) -> c_int {
            match rate {
                $($($rate => $mult,)?)+
                _ => -1,
            }
        }

        /// The rate that is `mult` times 2.5 Gb/s, or `IBV_RATE_MAX` (ibv_rate_to_mult(3)).
        pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> ibv_rate {
            match mult {
                $($($mult => $rate,)?)+
                _ => IBV_RATE_MAX,
            }
        }

        /// The rate in Mb/s, or -1 (ibv_rate_to_mbps(3)).
        pub extern "C" fn ibv_rate_to_mbps(rate: ibv_rate) -> c_int {
            match rate {
                $($rate => $mbps,)+
                _ => -1,
            }
        }

        /// The rate of `mbps` Mb/s, or `IBV_RATE_MAX` (ibv_rate_to_mbps(3)).
        pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> ibv_rate {
            match mbps {
                $($mbps => $rate,)+
                _ => IBV_RATE_MAX,
            }
        }

        #[cfg(test)]
        const RATES: [ibv_rate; [$($mbps),+].len()] = [$($rate),+];
    };
}

rates! {
    IBV_RATE_2_5_GBPS: 2_500, 1;
    IBV_RATE_5_GBPS: 5_000, 2;
    IBV_RATE_10_GBPS: 10_000, 4;
    IBV_RATE_20_GBPS: 20_000, 8;
    IBV_RATE_30_GBPS: 30_000, 12;
    IBV_RATE_40_GBPS: 40_000, 16;
    IBV_RATE_60_GBPS: 60_000, 24;
    IBV_RATE_80_GBPS: 80_000, 32;
    IBV_RATE_120_GBPS: 120_000, 48;
    IBV_RATE_14_GBPS: 14_062;
    IBV_RATE_56_GBPS: 56_250;
    IBV_RATE_112_GBPS: 112_500;
    IBV_RATE_168_GBPS: 168_750;
    IBV_RATE_25_GBPS: 25_781;
    IBV_RATE_100_GBPS: 103_125;
    IBV_RATE_200_GBPS: 206_250;
    IBV_RATE_300_GBPS: 309_375;
    IBV_RATE_28_GBPS: 28_125, 11;
    IBV_RATE_50_GBPS: 53_125, 20;
    IBV_RATE_400_GBPS: 425_000, 160;
    IBV_RATE_600_GBPS: 637_500, 240;
    IBV_RATE_800_GBPS: 850_000, 320;
    IBV_RATE_1200_GBPS: 1_275_000, 480;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::oracle;

    #[test]
    fn there_and_back() {
        // The examples of ibv_rate_to_mult(3) and ibv_rate_to_mbps(3).
        assert_eq!(ibv_rate_to_mult(IBV_RATE_5_GBPS), 2);
        assert_eq!(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
        // The table has every rate of the enumeration; they are numbered from 2.
        let mut rates = RATES;
        rates.sort_unstable();
        assert!(rates.into_iter().eq(2..2 + RATES.len() as u32));
        for rate in RATES {
            assert_eq!(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
            let mult = ibv_rate_to_mult(rate);
            assert!(mult == -1 || mult_to_ibv_rate(mult) == rate);
        }
        for none in [0, 1, 25, u32::MAX] {
            assert_eq!((ibv_rate_to_mult(none), ibv_rate_to_mbps(none)), (-1, -1));
        }
        for none in [c_int::MIN, -1, 0, 3, c_int::MAX] {
            assert_eq!(mult_to_ibv_rate(none), IBV_RATE_MAX);
            assert_eq!(mbps_to_ibv_rate(none), IBV_RATE_MAX);
        }
    }

    #[test]
    fn rates_are_those_of_the_c_library() {
        type Number = unsafe extern "C" fn(c_int) -> c_int;
        let library = oracle::library();
        type Case<'a> = (&'a str, c_int, &'a dyn Fn(c_int) -> c_int);
        let ours: [Case; 4] = [
            ("ibv_rate_to_mult", 1300, &|v| ibv_rate_to_mult(v as u32)),
            ("mult_to_ibv_rate", 1300, &|v| mult_to_ibv_rate(v) as c_int),
            ("ibv_rate_to_mbps", 1300, &|v| ibv_rate_to_mbps(v as u32)),
            ("mbps_to_ibv_rate", 1_300_000, &|v| {
                mbps_to_ibv_rate(v) as c_int
            }),
        ];
        for (name, end, our) in ours {
            let theirs = oracle::symbol::<Number>(&library, name);
            for value in -5..end {
                // SAFETY: these functions accept any number.
                assert_eq!(our(value), unsafe { theirs(value) }, "{name}({value})");
            }
        }
    }
}
