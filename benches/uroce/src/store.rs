//! Stored results: a TOML file for each run, with the machine and the figures of each round.
//! `benches/run` and `benches/uroce/run count` write the same form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The packages whose programs are measured.
const PACKAGES: [&str; 4] = ["perftest", "ucx-utils", "libfabric-bin", "libibverbs1"];

/// A run's file.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Results {
    pub run: Run,
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// The machine and the time of a run, as `benches/machine` prints them.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Run {
    pub date: String,
    pub commit: String,
    pub cpu: String,
    pub kernel: String,
    /// The load average of the minute before the run.
    pub load: String,
    pub versions: String,
}

/// The figures of one row of a table.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Row {
    pub metric: String,
    pub name: String,
    /// The figures of all rounds, by the size of messages or the library.
    pub at: BTreeMap<String, Vec<f64>>,
}

impl Results {
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|why| format!("{}: {why}", file.display()))?;
        toml::from_str(&text).map_err(|why| format!("{}: {why}", file.display()))
    }
}

/// Writes a run's file, with the machine as it is now.
pub fn write(file: &Path, rows: &[Row]) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", file.display());
    let script = compat_tests::paths::repo().join("benches/machine");
    let machine = Command::new(script)
        .args(PACKAGES)
        .output()
        .map_err(failed)?;
    if !machine.status.success() {
        return Err(String::from_utf8_lossy(&machine.stderr).into_owned());
    }
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let head = String::from_utf8_lossy(&machine.stdout);
    std::fs::write(file, format!("{head}{}", text(rows))).map_err(failed)
}

/// The rows as TOML. Names have neither quotes nor backslashes.
fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { metric, name, at } in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n[[row]]\nmetric = \"{metric}\"\nname = \"{name}\"");
        let mut at: Vec<_> = at.iter().collect();
        at.sort_by_key(|(key, _)| key.parse::<usize>().unwrap_or(0));
        for (key, values) in at {
            let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            let _ = writeln!(text, "at.{key} = [{}]", values.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let row = Row {
            metric: "latency".into(),
            name: "send, RC".into(),
            at: BTreeMap::from([("8".into(), vec![0.25, 1.0]), ("4096".into(), vec![1e-7])]),
        };
        let file = std::env::temp_dir().join(format!("bench-store-{}.toml", std::process::id()));
        write(&file, std::slice::from_ref(&row)).unwrap();
        let read = Results::read(&file);
        std::fs::remove_file(&file).unwrap();
        let read = read.unwrap();
        assert_eq!(read.rows, [row]);
        assert!(read.run.cpu.ends_with("CPUs"), "{:?}", read.run);
        assert_eq!(read.run.date.len(), "2026-11-26".len());
    }
}
