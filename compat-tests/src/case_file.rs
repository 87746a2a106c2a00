//! The case files, `cases/*.toml`: programs to run, with what is expected of them. README.md describes the
//! fields.
//!
//! A file has groups of rows. What a row does not say, its group's `default` says. In one testbed, what
//! `on.TESTBED` says of it comes first, then `on.uroce` in the testbeds of uroce.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use crate::case::Tier;

/// A row, as it is in one testbed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    pub name: String,
    /// The command of a program that runs alone.
    pub run: Option<String>,
    /// The commands of a server and its client. `+ ...` is the server's command with these arguments added.
    pub server: Option<String>,
    pub client: Option<String>,
    /// The exit code, or those of server and client: `0/0`.
    pub exit: String,
    /// The tiers: the shortest one for each testbed.
    #[serde(rename = "where")]
    pub testbeds: BTreeMap<String, When>,
    /// The values that are others in some testbeds.
    #[serde(default)]
    pub on: BTreeMap<String, Table>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The time limit of the client in seconds.
    pub limit: Option<u64>,
    /// Servers, each with its client, at the same time.
    #[serde(default = "one")]
    pub times: u16,
    /// Clients of the server at the same time.
    #[serde(default = "one")]
    pub clients: u16,
    /// The server does not end by itself: it gets SIGTERM when the clients have ended.
    #[serde(default)]
    pub kill: bool,
    /// The MTU of both interfaces during the case, in bytes.
    pub mtu: Option<u32>,
    /// How it is known that the server is ready.
    #[serde(default)]
    pub ready: Ready,
    /// A library of programs.toml that the programs preload. It fills the data that they send, checks it at
    /// the other end, and prints a line for each message that ends with `right` or `wrong at byte N`.
    pub checker: Option<String>,
    /// The text that the client must print, on either stream.
    pub says: Option<String>,
    /// The port, for a program that has no option for it.
    pub port: Option<u16>,
    #[serde(skip)]
    pub machine: MachineState,
    /// The fields that are none of these: those of `machine`.
    #[serde(flatten)]
    others: Table,
}

impl Row {
    /// Refuses the row in a testbed where one of these fields has no effect.
    pub fn has_none_of(&self, fields: &[&str]) -> Result<(), String> {
        let given = [
            ("times", self.times > 1),
            ("clients", self.clients > 1),
            ("mtu", self.mtu.is_some()),
            ("port", self.port.is_some()),
            ("checker", self.checker.is_some()),
        ];
        let is_one = |(field, given): &&(&str, bool)| *given && fields.contains(field);
        match given.iter().find(is_one) {
            Some((field, _)) => Err(format!(
                "{}: `{field}` has no effect in this testbed",
                self.name
            )),
            None => Ok(()),
        }
    }
}

fn one() -> u16 {
    1
}

/// The tier of a row in a testbed; `never` takes back what the group's default says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    Check,
    Test,
    All,
    Never,
}

impl When {
    pub fn tier(self) -> Option<Tier> {
        match self {
            When::Check => Some(Tier::Check),
            When::Test => Some(Tier::Test),
            When::All => Some(Tier::All),
            When::Never => None,
        }
    }
}

/// `tcp`: it listens on its TCP port; `cm`: on its port of the connection manager; or after a time: `2 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Ready {
    #[default]
    Tcp,
    Cm,
    After(u64),
}

impl TryFrom<String> for Ready {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "tcp" => Ok(Ready::Tcp),
            "cm" => Ok(Ready::Cm),
            other => other
                .strip_suffix(" s")
                .and_then(|seconds| seconds.parse().ok())
                .map(Ready::After)
                .ok_or_else(|| format!("ready: {text:?} is not tcp, cm or SECONDS s")),
        }
    }
}

/// How the virtual machine is during the case.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineState {
    /// `watch`: in a terminal, while the port of its device goes down and up; `setuid`: vm/suid.c, owned by
    /// root with the set-user-ID bit, with `run` as its arguments.
    pub kind: Option<String>,
    /// `ordinary`: as user nobody instead of root. On uroce, all programs run as ordinary users.
    pub user: Option<String>,
    /// Limit on locked memory, in KiB.
    pub memlock: Option<u64>,
    /// Permissions of the device's node.
    pub mode: Option<String>,
    /// The device's node: `away`, or replaced by another device's (`decoy`, `decoy-late`, `decoy-only`).
    pub node: Option<String>,
    /// A second device, rxe1.
    pub second_device: bool,
    /// `false`: not with LD_PRELOAD.
    pub preload: Option<bool>,
    /// `false`: in the virtual machine, not on the C library. What the row says is expected of ours.
    pub compared: Option<bool>,
    /// Compares the file of VERBS_LOG_FILE, too.
    pub log: bool,
    /// Replaces sockets by rsockets (librspreload).
    pub rsocket: bool,
    /// Two more devices, 10.9.8.1 and 10.9.8.2, connected by a veth pair.
    pub veth: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    group: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    #[serde(default)]
    default: Table,
    cases: Vec<Table>,
}

/// The rows of all case files in a directory, as (group, testbed, row).
pub fn read_all(dir: &Path) -> Result<Vec<(String, String, Row)>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.retain(|path| path.file_name().is_some_and(|name| name != "programs.toml"));
    files.sort();
    let mut rows = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        rows.extend(parse(&text).map_err(|e| format!("{}: {e}", path.display()))?);
    }
    Ok(rows)
}

/// The rows of a case file, once for each testbed in which they run.
pub fn parse(text: &str) -> Result<Vec<(String, String, Row)>, String> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for group in file.group {
        for case in group.cases {
            let mut merged = group.default.clone();
            merge(&mut merged, case);
            let name = merged.get("name").map(Value::to_string).unwrap_or_default();
            for (testbed, row) in in_testbeds(merged).map_err(|e| format!("{name}: {e}"))? {
                rows.push((group.name.clone(), testbed, row));
            }
        }
    }
    Ok(rows)
}

/// The row in each testbed that it names.
fn in_testbeds(row: Table) -> Result<Vec<(String, Row)>, String> {
    let names = row
        .get("where")
        .and_then(Value::as_table)
        .ok_or("no `where`")?
        .clone();
    let mut rows = Vec::new();
    for testbed in names.keys() {
        let mut own = row.clone();
        let on = own
            .remove("on")
            .unwrap_or_else(|| Value::Table(Table::new()));
        let on = on.as_table().ok_or("`on` is not a table")?;
        let uroce = UROCE.contains(&testbed.as_str()).then_some("uroce");
        for key in uroce.into_iter().chain([testbed.as_str()]) {
            if let Some(other) = on.get(key) {
                merge(
                    &mut own,
                    other.as_table().ok_or("`on` has tables only")?.clone(),
                );
            }
        }
        let mut own: Row = Value::Table(own).try_into().map_err(|e| format!("{e}"))?;
        let others = Value::Table(std::mem::take(&mut own.others));
        own.machine = others.try_into().map_err(|e| format!("{e}"))?;
        if own
            .testbeds
            .get(testbed)
            .is_some_and(|when| when.tier().is_some())
        {
            rows.push((testbed.clone(), own));
        }
    }
    Ok(rows)
}

/// The testbeds to which `on.uroce` applies.
pub const UROCE: &[&str] = &["loopback", "container", "veth", "interop", "interop-lossy"];

/// Puts the values of `over` into `table`; tables in it are merged.
fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(value)) => merge(below, value),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[[group]]
name = "g"
default = { exit = "0/0", client = "+ %a", where = { vm = "test", loopback = "all" } }
cases = [
    { name = "a", server = "s -p %p", on = { uroce = { exit = "1/1", env = { A = "1" } } } },
    # a comment
    { name = "b", server = "s", where = { loopback = "never" },
      ready = "2 s", env = { B = "2" } },
]
"#;

    #[test]
    fn rows_have_defaults_and_other_values_in_some_testbeds() {
        let rows = parse(TEXT).unwrap();
        let names: Vec<_> = rows
            .iter()
            .map(|(_, testbed, row)| format!("{testbed}/{}", row.name))
            .collect();
        assert_eq!(names, ["loopback/a", "vm/a", "vm/b"]);
        let [(_, _, on_uroce), (_, _, on_vm), (_, _, b)] = rows.as_slice() else {
            panic!()
        };
        assert_eq!(
            (on_uroce.exit.as_str(), on_vm.exit.as_str()),
            ("1/1", "0/0")
        );
        assert_eq!((on_uroce.env.len(), on_vm.env.len()), (1, 0));
        assert_eq!(on_vm.client.as_deref(), Some("+ %a"));
        assert_eq!(b.ready, Ready::After(2));
    }

    #[test]
    fn mistakes_are_found() {
        let wrong = |from: &str, to: &str| parse(&TEXT.replace(from, to)).unwrap_err();
        assert!(wrong("ready = \"2 s\"", "redy = \"tcp\"").contains("unknown field `redy`"));
        assert!(wrong("2 s", "soon").contains("ready"));
        assert!(wrong("vm = \"test\"", "vm = \"sometimes\"").contains("sometimes"));
        assert!(wrong("exit = \"0/0\", ", "").contains("exit"));
    }

    #[test]
    fn the_case_files_are_valid_and_names_are_unique() {
        let dir = crate::paths::repo().join("compat-tests/cases");
        let rows = read_all(&dir).unwrap();
        assert!(rows.len() > 500, "{} rows", rows.len());
        let mut seen = std::collections::BTreeSet::new();
        for (group, testbed, row) in rows {
            assert!(
                row.run.is_some() != row.client.is_some() || row.kind_is_setuid(),
                "{}",
                row.name
            );
            assert!(
                seen.insert((testbed.clone(), group, row.name.clone())),
                "{testbed}: {} twice",
                row.name
            );
        }
    }

    impl Row {
        fn kind_is_setuid(&self) -> bool {
            self.machine.kind.as_deref() == Some("setuid")
        }
    }
}
