//! Cases of a software device in /dev/infiniband and /sys as programs see it: by every libc
//! function that takes a path (c/view/view.c), and by programs that know nothing of RDMA.

use std::fs;

use crate::case::{Case, Tier};
use crate::context::{Context, Library, succeeded};
use crate::process::Program;
use crate::sandbox::Sandbox;
use crate::suites::view_functions;
use crate::verdict::{Failure, Verdict, ensure};

const CLASS: &str = "/sys/class/infiniband";

pub fn cases() -> Vec<Case> {
    let probe = |name: &'static str, program: &'static str| {
        let run = move |cx: &Context| every_call(cx, program);
        on_uroce(name, run).programs(&[program, "view-late"])
    };
    vec![
        probe("uroce/view/calls", "view"),
        probe("uroce/view/calls-fortified", "view-fortified"),
        on_uroce("uroce/view/calls-fixed", fixed_addresses).programs(&["view-fixed", "view-late"]),
        probe("uroce/view/calls-fixed-lazy", "view-fixed"),
        on_uroce("uroce/view/malloc", |cx| {
            allocates_nothing(cx, "view-malloc")
        })
        .programs(&["view-malloc", "view-late"]),
        on_uroce("uroce/view/malloc-fixed", |cx| {
            allocates_nothing(cx, "view-malloc-fixed")
        })
        .programs(&["view-malloc-fixed", "view-late"]),
        on_uroce("uroce/view/allocates", no_allocation).programs(&["view-allocates"]),
        on_uroce("uroce/view/bad-addresses", bad_addresses).programs(&["view-efault"]),
        on_uroce("uroce/view/switched-off", switched_off).programs(&["view"]),
        on_uroce("uroce/view/shell", shell),
        on_uroce("uroce/view/list", list),
        on_uroce("uroce/view/file-size-limit", file_size_limit),
        on_uroce("uroce/view/no-memfd", no_memfd).programs(&["no-memfd"]),
        on_uroce("uroce/view/python", python),
        on_uroce("uroce/view/children", children),
        on_uroce("uroce/view/node", node).tier(Tier::Test),
        on_uroce("uroce/view/java", java).tier(Tier::Test),
        on_uroce("uroce/view/ibstat", ibstat),
        on_uroce("uroce/view/udev", udev),
        on_uroce("uroce/view/show-gids", show_gids).tier(Tier::Test),
        on_uroce("uroce/view/no-cost", no_cost)
            .programs(&["view-cost"])
            .tier(Tier::Test),
        // Only in the machine's own network there is an interface with hardware.
        on_uroce("uroce/view/hwloc", hwloc).sandbox(Sandbox::Host),
    ]
}

fn on_uroce(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    let case = Case::new(name, run).sandbox(Sandbox::Namespace);
    case.tier(Tier::Check).limit(60).cpu(100)
}

/// A program that gets the library by LD_PRELOAD only, with a device `u` on the loopback interface.
fn preloaded<S: Into<String>>(cx: &Context, argv: impl IntoIterator<Item = S>) -> Program {
    let program = cx.program(argv).env("IBV_UROCE", "u=lo");
    program.env("LD_PRELOAD", cx.library(Library::Ours))
}

fn output<S: Into<String>>(
    cx: &Context,
    argv: impl IntoIterator<Item = S>,
) -> Result<String, Failure> {
    let program = preloaded(cx, argv);
    let ended = program.run()?;
    succeeded(&program.argv().join(" "), &ended)?;
    Ok(ended.out)
}

fn contains(text: &str, wanted: &[&str]) -> Verdict {
    for line in wanted {
        let verdict = ensure(text.contains(line), format!("there is no {line:?}"));
        verdict.map_err(|failure| failure.with(text))?;
    }
    Ok(())
}

fn every_call(cx: &Context, program: &str) -> Verdict {
    let ended = preloaded(cx, [cx.built(program)?, cx.built("view-late")?]).run()?;
    cx.report_lines(&ended, 110)
}

/// A program that is not position-independent, with the addresses of all redirected functions. Here they are
/// bound at the start; `calls-fixed-lazy` binds each with its first call.
fn fixed_addresses(cx: &Context) -> Verdict {
    let names = view_functions::redirected(cx)?;
    let addresses = fs::read_to_string(cx.source("c/view/addresses.c"))?;
    let has_address = |name: &&String| addresses.contains(&format!("X({name})"));
    let missing: Vec<&String> = names.iter().filter(|name| !has_address(name)).collect();
    ensure(
        missing.is_empty(),
        format!("addresses.c lacks {missing:?} of {} functions", names.len()),
    )?;
    let argv = [cx.built("view-fixed")?, cx.built("view-late")?];
    let ended = preloaded(cx, argv).env("LD_BIND_NOW", "1").run()?;
    cx.report_lines(&ended, 110)
}

/// The library allocates no memory while it has the dynamic linker's lock.
fn allocates_nothing(cx: &Context, program: &str) -> Verdict {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let argv = [cx.built(program)?, library, cx.built("view-late")?];
    let ended = cx.program(argv).env("IBV_UROCE", "u=lo").run()?;
    succeeded("the program", &ended)?;
    contains(&ended.out, &["device, visits, 0 allocations"])
}

/// Calls that do not concern the tree allocate no memory, in a program that loads the library by dlopen.
fn no_allocation(cx: &Context) -> Verdict {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let argv = [cx.built("view-allocates")?, library];
    let ended = cx.program(argv).env("IBV_UROCE", "u=lo").run()?;
    succeeded("the program", &ended)?;
    ensure(ended.out == "done\n", "a call fails or allocates")
        .map_err(|failure| failure.with(&ended.out))
}

/// Checks that calls to which the kernel answers EFAULT fail so with the view, too.
fn bad_addresses(cx: &Context) -> Verdict {
    let program = cx.built("view-efault")?;
    let kernel = cx.program([program.clone(), "hidden".into()]).run()?;
    succeeded("without the library", &kernel)?;
    cx.report_lines(&preloaded(cx, [program]).run()?, 35)
}

/// Without IBV_UROCE, or with IBV_UROCE_VIEW=0, there is nothing to see.
fn switched_off(cx: &Context) -> Verdict {
    let argv = [cx.built("view")?, "hidden".into()];
    let off = preloaded(cx, argv.clone()).env("IBV_UROCE_VIEW", "0");
    succeeded("IBV_UROCE_VIEW=0", &off.run()?)?;
    let unset = cx
        .program(argv)
        .env("LD_PRELOAD", cx.library(Library::Ours));
    succeeded("without IBV_UROCE", &unset.run()?)
}

/// A shell walks, matches patterns and starts other programs.
fn shell(cx: &Context) -> Verdict {
    let script = "cd /sys/class/infiniband/u/ports && pwd -P && cat 1/state && echo */link_layer &&\n\
        test -r ../node_guid && test ! -w ../node_guid && test -c /dev/infiniband/uverbs1024 &&\n\
        test -L /sys/class/infiniband/u && { echo 1 > ../node_guid || echo denied; } 2>/dev/null &&\n\
        for gid in 1/gids/[01]; do read -r text <$gid; echo $text; done";
    let out = output(cx, ["bash", "-c", script])?;
    let loopback = "0000:0000:0000:0000:0000:ffff:7f00:0001";
    let wanted = [
        "/sys/devices/virtual/uroce/u/infiniband/u/ports",
        "4: ACTIVE",
        "1/link_layer",
        "denied",
        loopback,
    ];
    contains(&out, &wanted)
}

/// Checks that where no file may grow (RLIMIT_FSIZE), files can be read all the same, and queue
/// pairs connect: the signal SIGXFSZ would end the programs.
fn file_size_limit(cx: &Context) -> Verdict {
    // The runner's files for standard output and error have the limit, too: hence the pipe.
    let limited = |script: &str| {
        let script = format!("(ulimit -c 0 -f 0; {script}) 2>&1 | cat");
        output(cx, ["bash", "-o", "pipefail", "-c", &script])
    };
    const FILES: &str = "cat /sys/class/infiniband/u/node_guid &&\n\
        read -r text </sys/class/infiniband/u/ports/1/state && echo $text &&\n\
        ls /sys/class/infiniband/u/ports/1/gids | wc -l";
    contains(&limited(FILES)?, &["4: ACTIVE\n256\n"])?;
    const PAIR: &str = "ibv_rc_pingpong -d u -g 1 -n 50 -p 18599 & server=$!\n\
        for try in {1..200}; do\n\
            ibv_rc_pingpong -d u -g 1 -n 50 -p 18599 127.0.0.1 && break; sleep 0.05\n\
        done && wait $server";
    let out = limited(PAIR)?;
    contains(&out, &["50 iters in"])
}

/// ls and find list what is there, and find follows links.
fn list(cx: &Context) -> Verdict {
    let out = output(cx, ["ls", "-lR", "/dev/infiniband", CLASS])?;
    let link = "u -> ../../devices/virtual/uroce/u/infiniband/u";
    contains(&out, &["231, 1216", "uverbs1024", link])?;
    let out = output(cx, ["ls", "-lR", "/sys/class/infiniband/u/"])?;
    let wanted = [
        "ports/1/gid_attrs/types:", "255", "node_guid", "subsystem -> ",
    ];
    contains(&out, &wanted)?;
    let out = output(
        cx,
        [
            "find",
            "-L",
            "/sys/class/infiniband/u/ports",
            "-name",
            "state",
        ],
    )?;
    ensure(
        out == "/sys/class/infiniband/u/ports/1/state\n",
        format!("find printed {out}"),
    )
}

/// Python's own calls: directory streams, stat, links, patterns. Debian's Python is not position-independent
/// and takes fchdir's address.
fn python(cx: &Context) -> Verdict {
    const SCRIPT: &str = "import glob, os, pathlib\n\
        print(os.listdir('/sys/class/infiniband'))\n\
        print(os.path.realpath('/sys/class/infiniband/u/device'))\n\
        print(glob.glob('/sys/class/infiniband/*/ports/*/rate'))\n\
        print(pathlib.Path('/sys/class/infiniband/u/device/numa_node').read_text())\n\
        print(sum(len(files) for _, _, files in os.walk('/sys/class/infiniband/u')))\n\
        print(sorted(entry.name for entry in os.scandir('/dev/infiniband')))\n\
        os.fchdir(os.open('/etc', os.O_RDONLY))\n\
        print(os.getcwd())\n";
    let out = output(cx, ["/usr/bin/python3", "-c", SCRIPT])?;
    let wanted = [
        "['u']\n/sys/devices/virtual/uroce/u\n['/sys/class/infiniband/u/ports/1/rate']\n-1\n",
        "['issm32', 'rdma_cm', 'umad32', 'uverbs1024']\n/etc\n",
    ];
    contains(&out, &wanted)
}

/// Python's subprocess makes children by vfork, which change their working directory in the parent's memory.
fn children(cx: &Context) -> Verdict {
    const SCRIPT: &str = "import os, subprocess, tempfile\n\
        u = '/sys/class/infiniband'\n\
        own = tempfile.mkdtemp()\n\
        os.chdir(own)\n\
        open('file', 'w').write('own')\n\
        subprocess.run(['true'], cwd=u, close_fds=False)\n\
        print(open('file').read(), os.getcwd() == own)\n\
        os.chdir('/')\n\
        subprocess.run(['true'], cwd=own)\n\
        print(os.listdir('sys/class/infiniband'))\n\
        os.chdir(u)\n\
        subprocess.run(['true'], cwd=own)\n\
        print(os.listdir('.'), os.getcwd() == u, flush=True)\n\
        if os.fork() == 0:\n\
        \x20   print(os.listdir('.'), flush=True)\n\
        \x20   os.chdir(own)\n\
        \x20   print(os.listdir('.'), flush=True)\n\
        \x20   os._exit(0)\n\
        os.wait()\n\
        print(os.listdir('.'))\n";
    let out = output(cx, ["/usr/bin/python3", "-c", SCRIPT])?;
    let wanted = "own True\n['u']\n['u'] True\n['u']\n['file']\n['u']\n";
    ensure(out == wanted, "a child changes its parent's directory")
        .map_err(|failure| failure.with(&out))
}

/// Node.js makes its statx calls by syscall(2).
fn node(cx: &Context) -> Verdict {
    if cx.program(["node", "--version"]).run().is_err() {
        return Err(Failure::skip("node is not installed"));
    }
    const SCRIPT: &str = "const fs = require('fs'), u = '/sys/class/infiniband/u';\n\
        console.log(fs.statSync(u).isDirectory(), fs.lstatSync(u).isSymbolicLink());\n\
        console.log(fs.realpathSync(u), fs.readFileSync(u + '/ports/1/state', 'utf8'));\n\
        console.log(fs.readdirSync('/dev/infiniband', {withFileTypes: true}).length);\n";
    let out = output(cx, ["node", "-e", SCRIPT])?;
    let wanted = [
        "true true\n/sys/devices/virtual/uroce/u/infiniband/u 4: ACTIVE\n",
        "4\n",
    ];
    contains(&out, &wanted)
}

/// Java looks functions of libc up by dlsym(3): fdopendir and fstatat64; statx in newer releases.
fn java(cx: &Context) -> Verdict {
    if cx.program(["java", "-version"]).run().is_err() {
        return Err(Failure::skip("java is not installed"));
    }
    const SOURCE: &str = "import java.nio.file.*;\n\
        class View { public static void main(String[] args) throws Exception {\n\
        Path u = Path.of(\"/sys/class/infiniband/u\");\n\
        System.out.println(Files.isDirectory(u) + \" \" + Files.isSymbolicLink(u));\n\
        System.out.println(u.toRealPath() + \" \" + Files.readString(u.resolve(\"ports/1/state\")));\n\
        try (var all = Files.newDirectoryStream(Path.of(\"/sys/class/infiniband\"))) {\n\
        for (Path path : all) System.out.println(path); } } }\n";
    let source = cx.dir().join("View.java");
    fs::write(&source, SOURCE).map_err(|error| Failure::new(error.to_string()))?;
    let out = output(cx, ["java".to_owned(), source.display().to_string()])?;
    let wanted = [
        "true true\n/sys/devices/virtual/uroce/u/infiniband/u 4: ACTIVE\n",
        "\n/sys/class/infiniband/u\n",
    ];
    contains(&out, &wanted)
}

/// Where memfd_create(2) is refused, the files can be read all the same.
fn no_memfd(cx: &Context) -> Verdict {
    let filter = cx.built("no-memfd")?;
    let out = output(
        cx,
        [&*filter, "cat", "/sys/class/infiniband/u/ports/1/state"],
    )?;
    contains(&out, &["4: ACTIVE\n"])
}

/// ibstat reads the files through libibumad, which does not depend on libibverbs.
fn ibstat(cx: &Context) -> Verdict {
    if cx.program(["ibstat", "-V"]).run().is_err() {
        return Err(Failure::skip("ibstat is not installed: run make deps"));
    }
    let out = output(cx, ["ibstat"])?;
    let wanted = [
        "CA 'u'", "State: Active", "Rate: 2.5", "Link layer: Ethernet",
    ];
    contains(&out, &wanted)
}

/// libudev walks along paths by descriptors (O_PATH), and uses no device that is not on sysfs.
fn udev(cx: &Context) -> Verdict {
    if cx.program(["udevadm", "--version"]).run().is_err() {
        return Err(Failure::skip("udevadm is not installed"));
    }
    let out = output(cx, ["udevadm", "info", "-p", "/sys/class/infiniband/u"])?;
    contains(&out, &["E: SUBSYSTEM=infiniband\n", "E: NAME=u\n"])?;
    let out = output(cx, ["udevadm", "info", "-n", "infiniband/uverbs1024"])?;
    contains(
        &out,
        &["E: SUBSYSTEM=infiniband_verbs\n", "E: MINOR=1216\n"],
    )?;
    let out = output(cx, ["udevadm", "info", "--export-db"])?;
    let wanted = [
        "P: /devices/virtual/uroce/u/infiniband/u\n",
        "P: /devices/virtual/misc/rdma_cm\n",
        "P: /devices/virtual/net/lo\n",
    ];
    contains(&out, &wanted)
}

/// A script that prints GID tables, as show_gids of vendors: with ls and cat, a process for each file.
fn show_gids(cx: &Context) -> Verdict {
    const SCRIPT: &str = r#"
        cd /sys/class/infiniband
        for device in $(ls); do
            for port in $(ls $device/ports); do
                for index in $(ls $device/ports/$port/gids); do
                    gid=$(cat $device/ports/$port/gids/$index)
                    [ "$gid" = 0000:0000:0000:0000:0000:0000:0000:0000 ] && continue
                    attributes=$device/ports/$port/gid_attrs
                    type=$(cat $attributes/types/$index 2>/dev/null)
                    echo "$device $port $index $gid $type $(cat $attributes/ndevs/$index)"
                done
            done
        done"#;
    let out = output(cx, ["bash", "-c", SCRIPT])?;
    let loopback = "0000:0000:0000:0000:0000:ffff:7f00:0001 RoCE v2 lo\n";
    contains(&out, &["u 1 0 fe80:", loopback])?;
    let entries = output(cx, ["ibv_devinfo", "-v", "-d", "u"])?;
    let shown = entries.matches("GID[").count();
    ensure(
        out.lines().count() == shown,
        format!("{shown} GIDs by ibv_devinfo, but:\n{out}"),
    )
}

/// hwloc shows the device in the place of its network interface. As kernel devices on such interfaces, it is
/// not shown if the interface is virtual.
fn hwloc(cx: &Context) -> Verdict {
    if cx.program(["hwloc-ls", "--version"]).run().is_err() {
        return Err(Failure::skip("hwloc-ls is not installed: run make deps"));
    }
    let Some(interface) = interface_with_hardware()? else {
        return Err(Failure::skip("no network interface is a PCI function"));
    };
    let program = preloaded(cx, ["hwloc-ls", "--whole-io"]);
    let ended = program.env("IBV_UROCE", format!("u={interface}")).run()?;
    succeeded("hwloc-ls", &ended)?;
    let names: Vec<&str> = ended.out.lines().map(str::trim).collect();
    let net = format!("Net \"{interface}\"");
    let of_function = |name: &str| {
        let at = names.iter().position(|line| *line == name)?;
        names[..at]
            .iter()
            .rposition(|line| line.starts_with("PCI "))
    };
    let (place, expected) = (of_function("OpenFabrics \"u\""), of_function(&net));
    ensure(
        place.is_some() && place == expected,
        "the device is not in the place of its interface",
    )
    .map_err(|failure| failure.with(&ended.out))
}

/// A network interface that is up, and belongs to a PCI function. /sys may be that of another network
/// namespace.
fn interface_with_hardware() -> Result<Option<String>, Failure> {
    let own = fs::read_to_string("/proc/self/net/dev")?;
    let is_own = |name: &str| {
        own.lines()
            .any(|line| line.trim().starts_with(&format!("{name}:")))
    };
    for interface in fs::read_dir("/sys/class/net")? {
        let interface = interface?;
        let path = fs::canonicalize(interface.path())?;
        let is_up = fs::read_to_string(path.join("operstate"))?.trim() == "up";
        let name = interface.file_name().to_string_lossy().into_owned();
        if is_up && is_own(&name) && path.to_string_lossy().contains("/pci") {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Without IBV_UROCE, and with IBV_UROCE_VIEW=0, a program that has loaded the library takes as many
/// instructions for its calls as without the library. With the view it takes more.
fn no_cost(cx: &Context) -> Verdict {
    if cx.program(["valgrind", "--version"]).run().is_err() {
        return Err(Failure::skip("valgrind is not installed: run make deps"));
    }
    let ours = cx.library(Library::Ours).display().to_string();
    let without = instructions(cx, &[])?;
    let preloaded = ("LD_PRELOAD", ours.as_str());
    let unset = instructions(cx, &[preloaded])?;
    let device = ("IBV_UROCE", "u=lo");
    let hidden = instructions(cx, &[preloaded, device, ("IBV_UROCE_VIEW", "0")])?;
    let shown = instructions(cx, &[preloaded, device])?;
    let counts = format!(
        "{without} instructions without the library, {unset} with it, {hidden} with IBV_UROCE_VIEW=0, \
         {shown} with the view"
    );
    ensure(unset == without && hidden == without, counts.clone())?;
    ensure(shown > without, counts)
}

/// The instructions in user space of the function `calls` of the program.
fn instructions(cx: &Context, env: &[(&str, &str)]) -> Result<u64, Failure> {
    let tool = ["valgrind", "--tool=callgrind", "--toggle-collect=calls"];
    let program = cx.built("view-cost")?;
    let words = tool.iter().copied();
    let words = words.chain(["--callgrind-out-file=/dev/null", &program]);
    // Symbols are looked up before the program begins.
    let mut run = cx.program(words).env("LD_BIND_NOW", "1").merged();
    for (name, value) in env {
        run = run.env(*name, *value);
    }
    let ended = run.run()?;
    succeeded("valgrind", &ended)?;
    contains(&ended.out, &["all calls have succeeded"])?;
    let collected = ended.out.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected :")?;
        count.trim().parse().ok()
    });
    collected.ok_or_else(|| Failure::new("callgrind has counted nothing").with(&ended.out))
}
