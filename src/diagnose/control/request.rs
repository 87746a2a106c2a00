//! Requests and answers. A request is a line: a word, and what it takes. The answer is a JSON object in a
//! line; the member `error` says why a request was refused.

use core::fmt::Write;

use super::super::faults;
use super::super::faults::KernelQp;
use super::super::finding::quote;
use super::super::peer_facts::Peer;
use super::facts;
use crate::provider::software;
use crate::provider::status::{DeviceStatus, QpStatus};

/// The version of requests and answers.
const VERSION: u32 = 1;

/// The answer to a request, with its newline.
pub fn answer(line: &[u8]) -> Vec<u8> {
    let at = line.iter().position(|byte| *byte == b' ');
    let (word, rest) = line.split_at(at.unwrap_or(line.len()));
    let result = match word {
        b"info" => Ok(info()),
        b"rules" => Ok(rules()),
        b"add" => add(rest.trim_ascii()),
        b"clear" => clear(rest),
        b"counters" => Ok(counters()),
        b"qps" => Ok(queue_pairs()),
        b"names" => Ok(names()),
        b"peer" => peer(rest),
        b"naming" => of_number(rest, super::super::peer::naming),
        b"sender" => of_number(rest, super::super::peer::sender),
        _ => Err("there is no such request".into()),
    };
    match result {
        Ok(json) => (json + "\n").into_bytes(),
        Err(why) => refused(&why),
    }
}

/// The answer to a request that is refused.
pub fn refused(why: &str) -> Vec<u8> {
    let mut json = String::from("{\"error\":");
    quote(&mut json, why);
    (json + "}\n").into_bytes()
}

/// The texts as JSON values, separated by commas.
fn joined(each: impl Iterator<Item = String>) -> String {
    each.collect::<Vec<_>>().join(",")
}

fn text(value: &str) -> String {
    let mut json = String::new();
    quote(&mut json, value);
    json
}

/// An object of numbers.
fn numbers<N: AsRef<str>>(values: impl IntoIterator<Item = (N, u64)>) -> String {
    let member = |(name, value): (N, u64)| format!("{}:{value}", text(name.as_ref()));
    format!("{{{}}}", joined(values.into_iter().map(member)))
}

fn info() -> String {
    let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let queue_pairs: usize = software::status()
        .iter()
        .map(|of| of.queue_pairs.len())
        .sum();
    format!(
        "{{\"version\":{VERSION},\"library\":{},\"pid\":{},\"program\":{},\"devices\":[{}],\
         \"qps\":{},\"faults\":{},\"rules\":{},\"explain\":{}}}",
        text(env!("CARGO_PKG_VERSION")),
        std::process::id(),
        text(program.trim_end()),
        joined(facts::devices().iter().map(|name| text(name))),
        queue_pairs + facts::kernel_queue_pairs().len(),
        faults::is_enabled(),
        faults::list().len(),
        super::super::is_enabled(),
    )
}

fn rules() -> String {
    let each = faults::list().into_iter().map(|listed| {
        format!(
            "{{\"number\":{},\"rule\":{},\"matches\":{},\"applied\":{}}}",
            listed.number,
            text(&listed.rule.to_string()),
            listed.matches,
            listed.applied
        )
    });
    format!(
        "{{\"faults\":{},\"rules\":[{}]}}",
        faults::is_enabled(),
        joined(each)
    )
}

fn add(rules: &[u8]) -> Result<String, String> {
    let numbers = faults::add(rules)?;
    let each = numbers.iter().map(ToString::to_string);
    Ok(format!("{{\"added\":[{}]}}", joined(each)))
}

fn clear(numbers: &[u8]) -> Result<String, String> {
    let words = String::from_utf8_lossy(numbers);
    let parse = |word: &str| {
        let number: Result<u32, _> = word.parse();
        number.map_err(|_| format!("'{}' is not the number of a rule", word.escape_default()))
    };
    let numbers = words
        .split_whitespace()
        .map(parse)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{{\"cleared\":{}}}", faults::clear(&numbers)?))
}

/// Answers IBV_EXPLAIN in another process, which sends a queue pair's number, that of its peer, and
/// a remote key.
fn peer(numbers: &[u8]) -> Result<String, String> {
    let words = String::from_utf8_lossy(numbers);
    let numbers: Vec<u32> = words
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [qpn, dest_qpn, rest @ ..] = &numbers[..] else {
        return Err("expected the numbers of two queue pairs".into());
    };
    let rkey = rest.first().copied();
    shown(super::super::peer::answer(*qpn, *dest_qpn, rkey))
}

fn shown(found: Option<Peer>) -> Result<String, String> {
    let found = found.ok_or("there is no such queue pair")?;
    Ok(format!("{{{}}}", found.json()))
}

/// Answers the same about a queue pair that names one of this number as its peer, or that has sent datagrams,
/// best to one of this number.
fn of_number(number: &[u8], find: fn(u32) -> Option<Peer>) -> Result<String, String> {
    let qpn = core::str::from_utf8(number.trim_ascii()).ok();
    let qpn = qpn.and_then(|qpn| qpn.parse().ok());
    let qpn = qpn.ok_or("expected the number of a queue pair")?;
    shown(find(qpn))
}

fn counters() -> String {
    let software = software::status();
    let of_software = software.iter().map(|device| {
        let each = device.counters.iter();
        let each = each
            .map(|(name, values)| format!("{}:{}", text(name), numbers(values.iter().copied())));
        format!(
            "{{\"name\":{},\"ports\":[{{\"port\":1,{}}}]}}",
            text(&device.name),
            joined(each)
        )
    });
    let kernel = facts::kernel_devices();
    let of_kernel = kernel.iter().map(|device| {
        let each = facts::kernel_counters(device).into_iter();
        let each = each.map(|of| {
            format!(
                "{{\"port\":{},{}:{}}}",
                of.port,
                text(of.directory),
                numbers(of.values)
            )
        });
        format!("{{\"name\":{},\"ports\":[{}]}}", text(device), joined(each))
    });
    format!("{{\"devices\":[{}]}}", joined(of_software.chain(of_kernel)))
}

fn names() -> String {
    let each = facts::named().into_iter().map(|named| {
        format!(
            "{{\"device\":{},\"object\":{},\"label\":{},\"name\":{}}}",
            text(&named.device),
            text(named.object.kind.name()),
            text(&named.object.label.to_string()),
            text(&named.name)
        )
    });
    format!("{{\"names\":[{}]}}", joined(each))
}

fn queue_pairs() -> String {
    let (software, of_kernel) = (software::status(), facts::kernel_queue_pairs());
    let names = facts::queue_pair_names();
    // The member `name`, with a comma before it.
    let name = |device: &str, qpn: u32| {
        let name = names.get(&(device.into(), qpn));
        name.map_or_else(String::new, |name| format!(",\"name\":{}", text(name)))
    };
    let of_software = software.iter().flat_map(|device| {
        let each = device.queue_pairs.iter();
        each.map(|qp| of_software(device, qp, &name(&device.name, qp.qpn)))
    });
    let of_kernel = of_kernel.iter();
    let of_kernel = of_kernel.map(|qp| of_kernel_device(qp, &name(&qp.device, qp.qpn)));
    format!("{{\"qps\":[{}]}}", joined(of_software.chain(of_kernel)))
}

fn of_software(device: &DeviceStatus, qp: &QpStatus, name: &str) -> String {
    let mut json = numbered(&device.name, qp.qpn, qp.kind, qp.state) + name;
    if let Some((address, dest_qpn)) = qp.peer {
        // Writing to a String does not fail.
        let _ = write!(json, ",\"peer\":\"{address}\",\"dest_qpn\":{dest_qpn}");
    }
    let attributes = numbers(qp.attributes.iter().copied());
    let counters = numbers(qp.counters.iter().copied());
    json + &format!(",\"attributes\":{attributes},\"counters\":{counters}}}")
}

fn of_kernel_device(qp: &KernelQp, name: &str) -> String {
    let mut json = numbered(&qp.device, qp.qpn, qp.kind, qp.state) + name;
    if let Some(dest_qpn) = qp.dest_qpn {
        // Writing to a String does not fail.
        let _ = write!(json, ",\"dest_qpn\":{dest_qpn}");
    }
    json + "}"
}

/// The beginning of an object.
fn numbered(device: &str, qpn: u32, kind: &str, state: &str) -> String {
    format!(
        "{{\"device\":{},\"qpn\":{qpn},\"type\":{},\"state\":{}",
        text(device),
        text(kind),
        text(state)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_refused() {
        for (line, error) in [
            (&b"nothing"[..], "there is no such request"),
            (b"", "there is no such request"),
            (b"clear x", "'x' is not the number of a rule"),
            (b"add drop", "without IBV_FAULTS"),
        ] {
            let answer = String::from_utf8(answer(line)).unwrap();
            assert!(
                answer.starts_with("{\"error\":\"") && answer.contains(error),
                "{answer}"
            );
            assert!(answer.ends_with("\"}\n"), "{answer}");
        }
    }

    #[test]
    fn answers_are_one_line() {
        for line in ["info", "rules", "counters", "qps", "names", "clear"] {
            let answer = String::from_utf8(answer(line.as_bytes())).unwrap();
            assert_eq!(answer.matches('\n').count(), 1, "{answer}");
            assert!(answer.ends_with("}\n"), "{answer}");
        }
        assert_eq!(numbers([("a", 1), ("b\"", 2)]), "{\"a\":1,\"b\\\"\":2}");
    }
}
