//! Files that other programs read, checked against the schemas of these programs: the Kubernetes manifests,
//! the workflows, the action, the GitLab template, and the list of components.

use std::time::Duration;

use super::{LIMIT, NAME, made, make_dist, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::downloads;
use crate::process::succeeded;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The validators, with the schemas in them.
const PACKAGES: &[&str] = &[
    "kubernetes-validate==1.37.0",
    "check-jsonschema==0.39.0",
    "cyclonedx-python-lib[json-validation]==11.12.0",
];
/// The oldest release of Kubernetes that the manifests are for, and the newest whose schema is known.
const KUBERNETES: [&str; 2] = ["1.31", "1.37"];

pub fn case() -> Case {
    let file = |name: &str, schema: &'static str, file: &'static str| {
        Check::new(name, move |cx| {
            let path = text(cx.source("..").join(file));
            conforms(cx, &["--builtin-schema", schema, &path])
        })
    };
    let all = vec![
        Check::new("kubernetes", kubernetes),
        Check::new("a wrong manifest is noticed", wrong),
        Check::new("kustomize", kustomize),
        file(
            "action",
            "vendor.github-actions",
            ".github/actions/setup-uroce/action.yml",
        ),
        file(
            "workflow-ci", "vendor.github-workflows", ".github/workflows/ci.yml",
        ),
        file(
            "workflow-release",
            "vendor.github-workflows",
            ".github/workflows/release.yml",
        ),
        file("gitlab", "vendor.gitlab-ci", "packaging/ci/gitlab.yml"),
        Check::new("components", components),
    ];
    checks::case("dist/schemas", all)
        .before(|| {
            make_dist()?;
            packages().map(drop)
        })
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(30)
}

pub(super) fn packages() -> Result<String, Failure> {
    let dir = downloads::python_packages("schemas-1", PACKAGES).map_err(Failure::skip)?;
    Ok(text(dir))
}

pub(super) fn conforms(cx: &Context, arguments: &[&str]) -> Verdict {
    let words = ["python3", "-m", "check_jsonschema"];
    let program = cx.program(words.iter().chain(arguments).copied());
    program
        .env("PYTHONPATH", packages()?)
        .merged()
        .succeed()
        .map(drop)
}

/// Each item of a list is checked, without properties that the schema does not know.
const VALIDATE: &str = "
import sys, yaml, kubernetes_validate
release, path = sys.argv[1:]
items = yaml.safe_load(open(path))['items']
for item in items:
    kubernetes_validate.validate(item, release, strict=True)
print(len(items), 'items')
";

fn validate(cx: &Context, release: &str, path: &str) -> Result<crate::process::Ended, Failure> {
    let program = cx.program(["python3", "-c", VALIDATE, release, path]);
    // The schema of a release has megabytes.
    let program = program.limit(Duration::from_secs(600));
    Ok(program.env("PYTHONPATH", packages()?).run()?)
}

fn manifest(cx: &Context) -> String {
    text(cx.source("../packaging/kubernetes/ib-write-bw.yaml"))
}

fn kubernetes(cx: &Context) -> Verdict {
    for release in KUBERNETES {
        let ended = validate(cx, release, &manifest(cx))?;
        succeeded(release, &ended)?;
        ensure(
            ended.out == "3 items\n",
            format!("{release}: {}", ended.out),
        )?;
    }
    Ok(())
}

fn wrong(cx: &Context) -> Verdict {
    let contents = crate::process::read(manifest(cx).as_ref());
    let changed = contents.replace("readOnlyRootFilesystem", "readOnlyRoot");
    ensure(changed != contents, "nothing was changed")?;
    let file = text(cx.write("wrong.yaml", changed)?);
    let ended = validate(cx, KUBERNETES[0], &file)?;
    let noticed = !ended.ok() && ended.err.contains("readOnlyRoot");
    ensure(noticed, "it was accepted").with(ended.err)
}

/// Each workload in the output of kustomize conforms, and has what the component adds; prints their kinds.
const RENDERED: &str = "
import sys, yaml, kubernetes_validate
release, path = sys.argv[1:]
kinds = []
for item in yaml.safe_load_all(open(path)):
    kubernetes_validate.validate(item, release, strict=True)
    if item['kind'] == 'Service':
        continue
    pod = item['spec'].get('template', item)['spec']
    (container,) = pod['containers']
    names = {variable['name'] for variable in container['env']}
    assert container['image'] and names == {'IBV_UROCE', 'LD_LIBRARY_PATH'}, container
    assert container['volumeMounts'] == [{'name': 'uroce', 'mountPath': '/uroce'}], container
    assert [each['name'] for each in pod['initContainers']] == ['libibverbs-rs'], pod
    assert pod['volumes'] == [{'name': 'uroce', 'emptyDir': {}}], pod
    kinds.append(item['kind'])
print(*sorted(kinds))
";

/// Workloads of the kinds that the example does not have.
const MORE: &str = "
apiVersion: v1
kind: Pod
metadata: { name: pod, labels: { libibverbs-rs/uroce: 'true' } }
spec: { containers: [{ name: rdma, image: image }] }
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: set, labels: { libibverbs-rs/uroce: 'true' } }
spec:
  serviceName: set
  selector: { matchLabels: { app: set } }
  template:
    metadata: { labels: { app: set } }
    spec: { containers: [{ name: rdma, image: image }] }
";

/// The example with the component, and workloads of further kinds.
fn kustomize(cx: &Context) -> Verdict {
    let copy = text(cx.dir().join("kustomize"));
    let from = text(cx.source("../packaging/kubernetes"));
    cx.output(["cp", "-r", &from, &copy])?;
    cx.write("kustomize/example/more.yaml", MORE)?;
    let path = "kustomize/example/kustomization.yaml";
    let listed = crate::process::read(&cx.dir().join(path));
    cx.write(
        path,
        listed.replace("client.yaml]", "client.yaml, more.yaml]"),
    )?;
    let example = format!("{copy}/example");
    let Ok(rendered) = cx.program(["kubectl", "kustomize", &example]).run() else {
        return Err(Failure::skip("kubectl is not installed"));
    };
    succeeded("kubectl kustomize", &rendered)?;
    let file = text(cx.write("rendered.yaml", &rendered.out)?);
    for release in KUBERNETES {
        let program = cx.program(["python3", "-c", RENDERED, release, &file]);
        let program = program.limit(Duration::from_secs(600));
        let ended = program.env("PYTHONPATH", packages()?).succeed()?;
        ensure(
            ended.out == "Deployment Job Pod StatefulSet\n",
            format!("{release}: {}", ended.out),
        )?;
    }
    Ok(())
}

/// Prints what is wrong with a list of components.
const CYCLONEDX: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read()))
";

fn components(cx: &Context) -> Verdict {
    let bill = text(made().join(format!("{NAME}.cdx.json")));
    let program = cx.program(["python3", "-c", CYCLONEDX, &bill]);
    program.env("PYTHONPATH", packages()?).succeed().map(drop)
}
