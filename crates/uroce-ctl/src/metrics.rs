//! Counters of queue pairs as OpenMetrics text (https://openmetrics.io), for Prometheus and the like.
//!
//! The answers come from other processes: names of metrics and values of labels are made harmless.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::client::Process;
use crate::text::printable;

/// The type of a metric in OpenMetrics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A number that only grows: its name ends with `_total`.
    Counter,
    Gauge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Attributes that are numbers of things, and not settings.
const GAUGES: [&str; 2] = ["send_wqes", "recv_wqes"];

/// Whether a name can be a part of that of a metric.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value of a label, in its quotes.
fn label(name: &str, value: &str) -> String {
    let mut text = format!("{name}=\"");
    for c in printable(value).chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            c => text.push(c),
        }
    }
    text + "\""
}

fn labels(process: &Process, qp: &Value) -> String {
    let text = |name: &str| qp[name].as_str().unwrap_or_default().to_string();
    let qpn = qp["qpn"].as_u64().unwrap_or(0);
    let mut labels = vec![
        label("pid", &process.pid.to_string()),
        label("device", &text("device")),
        label("qpn", &format!("{qpn:#x}")),
        label("type", &text("type")),
        label("state", &text("state")),
    ];
    if qp["name"].is_string() {
        labels.push(label("name", &text("name")));
    }
    labels.join(",")
}

/// The page: what each process has answered to `qps`.
pub fn page(answers: &[(Process, Value)]) -> String {
    let mut families: BTreeMap<(String, Kind), Vec<(String, u64)>> = BTreeMap::new();
    let mut add = |kind: Kind, values: &Value, labels: &str, wanted: &dyn Fn(&str) -> bool| {
        for (name, value) in values.as_object().into_iter().flatten() {
            if let Some(value) = value.as_u64().filter(|_| is_name(name) && wanted(name)) {
                let family = families.entry((name.clone(), kind)).or_default();
                family.push((labels.into(), value));
            }
        }
    };
    for (process, answer) in answers {
        for qp in answer["qps"].as_array().into_iter().flatten() {
            let labels = labels(process, qp);
            add(Kind::Counter, &qp["counters"], &labels, &|_| true);
            add(Kind::Gauge, &qp["attributes"], &labels, &|name| {
                GAUGES.contains(&name)
            });
        }
    }
    let mut text = String::new();
    for ((name, kind), samples) in families {
        let suffix = match kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
        };
        // Writing to a String does not fail.
        let _ = writeln!(text, "# TYPE ibverbs_qp_{name} {}", kind.name());
        for (labels, value) in samples {
            let _ = writeln!(text, "ibverbs_qp_{name}{suffix}{{{labels}}} {value}");
        }
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(json: &str) -> Vec<(Process, Value)> {
        let mut process = Process::default();
        process.pid = 7;
        vec![(process, serde_json::from_str(json).unwrap())]
    }

    #[test]
    fn a_page() {
        let qp = r#"{"device":"uroce0","qpn":17,"type":"RC","state":"RTS",
                     "attributes":{"send_wqes":2,"path_mtu":1024},"counters":{"sent_pkts":5}}"#;
        let text = page(&answer(&format!("{{\"qps\":[{qp}]}}")));
        let labels = r#"pid="7",device="uroce0",qpn="0x11",type="RC",state="RTS""#;
        let expected = format!(
            "# TYPE ibverbs_qp_send_wqes gauge\nibverbs_qp_send_wqes{{{labels}}} 2\n\
             # TYPE ibverbs_qp_sent_pkts counter\nibverbs_qp_sent_pkts_total{{{labels}}} 5\n# EOF\n"
        );
        assert_eq!(text, expected);
        assert_eq!(page(&[]), "# EOF\n");
        let named = qp.replace("\"qpn\"", "\"name\":\"a \\\"b\",\"qpn\"");
        let text = page(&answer(&format!("{{\"qps\":[{named}]}}")));
        assert!(text.contains(r#"state="RTS",name="a \"b"} 5"#), "{text}");
    }

    #[test]
    fn hostile_answers() {
        let qp = r#"{"device":"a\"b\\\nc","qpn":1,"counters":{"x y":1,"":2,"z":-1,"ok":3}}"#;
        let text = page(&answer(&format!("{{\"qps\":[{qp},5]}}")));
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r#"device="a\"b\\"#), "{text}");
    }
}
