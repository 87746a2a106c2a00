//! Network conditions by IBV_FAULTS: a line with a rate and a queue, delays that vary, losses in bursts,
//! partitions; links and devices that fail and come back (c/lab/failover.c). Each through shared memory and
//! by UDP.

use std::time::Duration;

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Program, Running};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, local) in [("local", "1"), ("udp", "0")] {
        let mut add = |name: &str, run: Run| {
            let case = Case::new(format!("uroce/conditions/{path}/{name}"), move |cx| {
                run(cx, local)
            });
            let case = case
                .sandbox(Sandbox::Namespace)
                .tier(Tier::Check)
                .limit(60)
                .cpu(150);
            cases.push(case.programs(&["failover"]));
        };
        add("device-dies", |cx, local| {
            failover(cx, local, "device", "at 300ms: device dies for 500ms")
        });
        add("link-down", |cx, local| {
            failover(cx, local, "link", "at 300ms: link down for 300ms")
        });
        add("gids-removed", |cx, local| {
            failover(cx, local, "gids", "at 300ms: gids removed for 300ms")
        });
        add("third-of-each", |cx, local| {
            let rules = "wc:status=retry-exc-err,after=2,count=1,opcode=send,per=qp";
            failover(cx, local, "third", rules)
        });
        add("rate", rate);
        add("delay", delay);
        add("burst", burst);
        add("partition", partition);
    }
    cases
}

type Run = fn(&Context, &'static str) -> Verdict;

fn on_uroce<S: Into<String>>(
    cx: &Context,
    argv: impl IntoIterator<Item = S>,
    local: &str,
    rules: &str,
) -> Program {
    cx.program(argv)
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "u=127.0.0.1")
        .env("IBV_UROCE_LOCAL", local)
        .env("IBV_FAULTS", rules)
}

fn failover(cx: &Context, local: &str, scene: &str, rules: &str) -> Verdict {
    let argv = [cx.built("failover")?, scene.into()];
    cx.report_lines(&on_uroce(cx, argv, local, rules).run()?, 5)
}

/// Runs perftest with these rules in both processes: returns what the client prints, and whether
/// both have succeeded.
fn perftest(
    cx: &Context,
    local: &str,
    rules: &str,
    command: &str,
) -> Result<(String, bool), Failure> {
    let argv = || command.split(' ');
    let mut server: Running = on_uroce(cx, argv(), local, rules).spawn()?;
    let listening =
        || std::fs::read_to_string("/proc/net/tcp").is_ok_and(|text| text.contains(" 0A "));
    crate::process::wait_until(Duration::from_secs(20), listening);
    let client = on_uroce(cx, argv().chain(["127.0.0.1"]), local, rules).run()?;
    let works = client.ok();
    if !works {
        server.terminate();
    }
    let server_works = server.wait(Duration::from_secs(20)).is_ok();
    Ok((client.out, works && server_works))
}

/// A number in the line of results: the columns of perftest, from 0.
fn column(out: &str, column: usize) -> Option<f64> {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut lines = out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let results =
        lines.rfind(|words| words.len() > 4 && words.iter().all(|word| is_number(word)))?;
    results.get(column)?.parse().ok()
}

/// 200 Mb/s are 23.8 MiB/s, less the headers. Without the rule it is a hundred times as much.
fn rate(cx: &Context, local: &'static str) -> Verdict {
    let rules = "rate:rate=200M,queue=256K; delay:time=500us";
    let (out, works) = perftest(cx, local, rules, "ib_write_bw -d u -x 1 -F -n 200")?;
    let average = column(&out, 3).filter(|_| works);
    let fits = average.is_some_and(|average| (8.0..=23.9).contains(&average));
    ensure(fits, format!("{average:?} MiB/s")).with(&out)
}

/// Each way takes 2 ms and a little more or less; perftest reports half of a round trip.
fn delay(cx: &Context, local: &'static str) -> Verdict {
    let rules = "seed=4; delay:time=2ms,jitter=200us,distribution=normal";
    let (out, works) = perftest(cx, local, rules, "ib_send_lat -d u -x 1 -F -n 100")?;
    let least = column(&out, 2).filter(|_| works);
    let fits = least.is_some_and(|least| least > 1_200.0);
    ensure(fits, format!("{least:?} us at least")).with(&out)
}

/// Retransmission repairs bursts of two packets.
fn burst(cx: &Context, local: &'static str) -> Verdict {
    let rules = "seed=4; burst:p=0.5%,length=2";
    let (out, works) = perftest(cx, local, rules, "ib_send_lat -d u -x 1 -F -n 1000 -u 10")?;
    let most = column(&out, 3).filter(|_| works);
    // The ack timeout 10 is 4.2 ms: some messages have waited for it.
    ensure(
        most.is_some_and(|most| most > 1_000.0),
        format!("{most:?} us at most"),
    )
    .with(&out)
}

/// Checks a partition: from one network nothing arrives, from others all.
fn partition(cx: &Context, local: &'static str) -> Verdict {
    let run = |rules: &str| perftest(cx, local, rules, "ib_send_lat -d u -x 1 -F -n 20 -u 8");
    let (out, works) = run("at 0s: partition from 192.0.2.0/24")?;
    ensure(works, "packets of other addresses are lost").with(&out)?;
    let (out, works) = run("at 0s: partition from 127.0.0.0/8")?;
    ensure(!works, "packets of the partition arrive").with(&out)
}
