//! Kernels that copy pinned pages at fork, and those that do not.

use super::*;

pub fn checks() -> Vec<Check> {
    let mut list = copying(FAKE);
    list.extend(not_copying("does-not-copy", Some("0")));
    list.extend(not_copying("does-not-report", None));
    list
}

/// The program on a kernel whose netlink reports this.
fn on(kernel: ForkKernel, copies: Option<&str>, name: impl Into<String>, argv: &[&str]) -> Scene {
    let scene = both(kernel, name, argv).env("FAKE_NL", "ok");
    match copies {
        Some(value) => scene.env("FAKE_NL_COF", value),
        None => scene,
    }
}

/// The output of these scenes says whether fork safety is initialized.
fn saying(scene: Scene) -> Scene {
    scene.mask(str::to_string)
}

pub fn copying(kernel: ForkKernel) -> Vec<Check> {
    let on = |name: &str, argv: &[&str]| on(kernel, Some("1"), name, argv);
    let overlaps = ["forktest", "overlaps"];
    let with = |variable: &str| saying(on("", &overlaps)).env(variable, "kernel");
    let too_late = saying(on("", &["forktest", "too-late"])).env("IBV_FORK_SAFE", "kernel");
    let many = on("", &["forktest", "many"]);
    vec![
        saying(on("copies-initialized", &["forktest", "init"])).check(),
        on("copies-pages-are-hidden-nevertheless", &overlaps).check(),
        expected("IBV_FORK_SAFE=kernel", "kernel", with("IBV_FORK_SAFE")),
        expected("RDMAV_FORK_SAFE=kernel", "kernel", with("RDMAV_FORK_SAFE")),
        expected("kernel-too-late", "kernel-too-late", too_late),
        Check::new("more-regions-than-mappings", move |cx| {
            enough_memory()?;
            as_expected(cx, "more-regions-than-mappings", &many)
        }),
    ]
}

fn not_copying(which: &str, copies: Option<&'static str>) -> Vec<Check> {
    let named = |what: &str| format!("{which}-{what}");
    let init = saying(on(
        FAKE,
        copies,
        named("initialized"),
        &["forktest", "init"],
    ));
    let hidden = on(
        FAKE,
        copies,
        named("pages-are-hidden"),
        &["forktest", "overlaps"],
    );
    let parts = vec!["", "log"];
    let regions = Check::with_parts(named("no-more-regions"), parts, move |cx| {
        no_more_regions(cx, copies)
    });
    let hidden = hidden.env("IBV_FORK_SAFE", "kernel");
    vec![init.check(), hidden.check(), regions]
}

fn no_more_regions(cx: &Context, copies: Option<&str>) -> Result<Vec<Verdict>, Failure> {
    enough_memory()?;
    let scene = on(FAKE, copies, "", &["forktest", "many"])
        .env("VERBS_LOG_LEVEL", "2")
        .env("VERBS_LOG_FILE", LOG);
    let pattern = "^libibverbs: 4096 bytes .* this process has [0-9]+, \
                   and vm.max_map_count is [0-9]+; raise it";
    Ok(vec![
        as_expected(cx, "no-more-regions-than-mappings", &scene),
        log_says(pattern),
    ])
}

/// This number of regions must fit the machine's memory.
fn enough_memory() -> Verdict {
    let count = read("/proc/sys/vm/max_map_count".as_ref());
    if count.trim().parse::<u64>().unwrap_or(0) > 300_000 {
        return Err(Failure::skip("vm.max_map_count is above 300000"));
    }
    Ok(())
}
