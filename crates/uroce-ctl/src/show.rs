//! Answers as tables.

use serde_json::Value;

use crate::client::Process;
use crate::text::{plain, printable};

type Answers<'a> = &'a [(Process, Value)];

/// Rows as a table with aligned columns; those in `right` are aligned to the right.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            match right.contains(&column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn number(value: &Value) -> String {
    value.as_u64().unwrap_or(0).to_string()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

/// The elements of an array.
pub fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn processes(answers: Answers) -> String {
    let mut rows = vec![row([
        "PID", "PROGRAM", "DEVICES", "QPS", "FAULTS", "EXPLAIN",
    ])];
    for (process, info) in answers {
        let devices: Vec<String> = each(&info["devices"]).map(plain).collect();
        let faults = match info["faults"].as_bool() {
            Some(true) => format!("{} rules", number(&info["rules"])),
            _ => "no".into(),
        };
        let explain = info["explain"].as_bool() == Some(true);
        rows.push(vec![
            process.pid.to_string(),
            plain(&info["program"]),
            devices.join(","),
            number(&info["qps"]),
            faults,
            if explain { "yes" } else { "no" }.into(),
        ]);
    }
    table(&rows, &[0, 3])
}

pub fn rules(answers: Answers) -> String {
    let mut rows = vec![row(["PID", "NUMBER", "MATCHED", "APPLIED", "RULE"])];
    for (process, answer) in answers {
        for rule in each(&answer["rules"]) {
            rows.push(vec![
                process.pid.to_string(),
                number(&rule["number"]),
                number(&rule["matches"]),
                number(&rule["applied"]),
                plain(&rule["rule"]),
            ]);
        }
    }
    table(&rows, &[0, 1, 2, 3])
}

pub fn added(answers: Answers) -> String {
    let line = |(process, answer): &(Process, Value)| {
        let numbers: Vec<String> = each(&answer["added"]).map(number).collect();
        format!(
            "process {}: rules added: {}\n",
            process.pid,
            numbers.join(", ")
        )
    };
    answers.iter().map(line).collect()
}

pub fn cleared(answers: Answers) -> String {
    let line = |(process, answer): &(Process, Value)| {
        let count = number(&answer["cleared"]);
        format!("process {}: rules removed: {count}\n", process.pid)
    };
    answers.iter().map(line).collect()
}

pub fn counters(answers: Answers, zeros: bool) -> String {
    let mut rows = vec![row(["PID", "DEVICE", "PORT", "COUNTER", "VALUE"])];
    for (process, answer) in answers {
        for device in each(&answer["devices"]) {
            for port in each(&device["ports"]) {
                let directories = port.as_object().into_iter().flatten();
                let values =
                    directories.flat_map(|(_, values)| values.as_object().into_iter().flatten());
                for (name, value) in values.filter(|(_, value)| zeros || value.as_u64() != Some(0))
                {
                    rows.push(vec![
                        process.pid.to_string(),
                        plain(&device["name"]),
                        number(&port["port"]),
                        printable(name),
                        number(value),
                    ]);
                }
            }
        }
    }
    table(&rows, &[0, 2, 4])
}

/// The peer of a queue pair: `ADDRESS/QPN`, or what is known of it.
pub fn peer(qp: &Value) -> String {
    let number = qp["dest_qpn"].as_u64().map(|qpn| format!("{qpn:#x}"));
    match (plain(&qp["peer"]), number) {
        (address, Some(number)) if !address.is_empty() => format!("{address}/{number}"),
        (_, Some(number)) => number,
        _ => "-".into(),
    }
}

/// A number of a queue pair that not every device reports.
fn optional(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| "-".into(), |number| number.to_string())
}

pub fn queue_pairs(answers: Answers) -> String {
    const HEAD: [&str; 14] = [
        "PID", "DEVICE", "QPN", "TYPE", "STATE", "PEER", "MTU", "SENDQ", "RECVQ", "SENT",
        "RECEIVED", "RETRY", "RNR", "NAME",
    ];
    let mut rows = vec![row(HEAD)];
    for (process, answer) in answers {
        for qp in each(&answer["qps"]) {
            let (attributes, counters) = (&qp["attributes"], &qp["counters"]);
            let rnr = counters["rcvd_rnr_err"]
                .as_u64()
                .zip(counters["send_rnr_err"].as_u64());
            rows.push(vec![
                process.pid.to_string(),
                plain(&qp["device"]),
                format!("{:#x}", qp["qpn"].as_u64().unwrap_or(0)),
                plain(&qp["type"]),
                plain(&qp["state"]),
                peer(qp),
                optional(&attributes["path_mtu"]),
                optional(&attributes["send_wqes"]),
                optional(&attributes["recv_wqes"]),
                optional(&counters["sent_pkts"]),
                optional(&counters["rcvd_pkts"]),
                optional(&counters["completer_retry_err"]),
                rnr.map_or_else(
                    || "-".into(),
                    |(received, sent)| received.saturating_add(sent).to_string(),
                ),
                plain(&qp["name"]),
            ]);
        }
    }
    table(&rows, &[0, 6, 7, 8, 9, 10, 11, 12])
}

/// The objects to which programs have given names.
pub fn names(answers: Answers) -> String {
    let mut rows = vec![row(["PID", "DEVICE", "OBJECT", "LABEL", "NAME"])];
    for (process, answer) in answers {
        for named in each(&answer["names"]) {
            let of = |member: &str| plain(&named[member]);
            let pid = process.pid.to_string();
            rows.push(vec![
                pid,
                of("device"),
                of("object"),
                of("label"),
                of("name"),
            ]);
        }
    }
    table(&rows, &[0])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::printable_json;

    #[test]
    fn columns_are_aligned() {
        let rows = [row(["A", "BB", "C"]), row(["10", "x", "yy"])];
        assert_eq!(table(&rows, &[0]), " A  BB  C\n10  x   yy\n");
    }

    #[test]
    fn all_texts_are_printable() {
        let names = json!({"\u{1b}]0;x\u{7}": 1});
        let answer =
            json!({"devices": [{"name": "d", "ports": [{"port": 1, "hw_counters": names}]}]});
        let process = Process::named(7);
        let text = counters(&[(process, answer.clone())], false);
        assert!(text.contains("?]0;x?"), "{text}");
        let json = printable_json(&json!({"a": "\u{9b}\u{7f}\u{e0001}\u{e9}\u{1b}"}));
        assert_eq!(
            json,
            "{\"a\":\"\\u009b\\u007f\\udb40\\udc01\u{e9}\\u001b\"}"
        );
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, json!({"a": "\u{9b}\u{7f}\u{e0001}\u{e9}\u{1b}"}));
    }

    #[test]
    fn peers() {
        assert_eq!(
            peer(&json!({"peer": "10.0.0.1", "dest_qpn": 17})),
            "10.0.0.1/0x11"
        );
        assert_eq!(peer(&json!({"dest_qpn": 17})), "0x11");
        assert_eq!(peer(&json!({})), "-");
    }
}
