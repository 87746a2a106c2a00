//! The YAML of docs/guides/ci.md: what it shows for GitHub and for GitLab conforms to their schemas, names
//! files and inputs that exist, and gives its commands the device when it runs as a runner executes it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::ci::{forge, home, variables};
use super::schemas::{conforms, packages};
use super::{LIMIT, make_dist, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::process::{Program, Running, read};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

const PORT: u16 = 20_085;
/// Where the guide's `OWNER` has the repository; a release's files are below it.
const REPOSITORY: &str = "OWNER/libibverbs-rs";
/// The files of a job's home directory to which a step of GitHub adds variables and directories of programs.
const ADDED_ENV: &str = "github-env";
const ADDED_PATH: &str = "github-path";

pub fn case() -> Case {
    let schema = |name: &'static str, schema: &'static str| {
        Check::new(format!("{name} schema"), move |cx| {
            jobs(cx)?;
            let file = text(cx.dir().join(format!("{name}.yml")));
            conforms(cx, &["--builtin-schema", schema, &file])
        })
    };
    let runs = |name: &'static str| Check::new(format!("{name} runs"), move |cx| runs(cx, name));
    let all = vec![
        schema("github", "vendor.github-workflows"),
        schema("gitlab", "vendor.gitlab-ci"),
        runs("github"),
        runs("gitlab"),
    ];
    checks::case("dist/ci-guide", all)
        .before(|| {
            make_dist()?;
            packages().map(drop)
        })
        .sandbox(Sandbox::Namespace)
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(30)
}

/// Writes the guide's blocks into github.yml, completed to a workflow, and gitlab.yml. Prints the steps of
/// each as JSON: the commands, and the variables that they have. The files that a runner would take from the
/// forge are those of the source tree, and must be named by its version.
const JOBS: &str = r#"
import json, os, re, sys, yaml
repo, version, forge, repository = sys.argv[1:]
def load(path):
    return yaml.safe_load(open(f'{repo}/{path}'))
page = open(f'{repo}/docs/guides/ci.md').read()
github, gitlab = re.findall(r'^```yaml\n(.*?)^```$', page, re.M | re.S)

def of_action(step):
    path, reference = step['uses'].split('@')
    assert path.startswith(repository + '/') and reference == f'v{version}', step
    directory = path[len(repository) + 1:]
    action = load(f'{directory}/action.yml')
    given = {name: str(value) for name, value in step['with'].items()}
    assert given['version'] == version and set(given) <= set(action['inputs']), given
    values = {'github.server_url': forge, 'github.action_repository': repository}
    for name, about in action['inputs'].items():
        assert name in given or not about.get('required'), name
        values[f'inputs.{name}'] = given.get(name, about.get('default'))
    for each in action['runs']['steps']:
        env = {name: re.sub(r'\$\{\{ *([a-z_.]+) *\}\}', lambda found: values[found[1]], value)
               for name, value in each['env'].items()}
        yield {'run': each['run'], 'env': dict(env, GITHUB_ACTION_PATH=f'{repo}/{directory}')}

steps = yaml.safe_load(github)
with open('github.yml', 'w') as file:
    job = {'runs-on': 'ubuntu-latest', 'steps': steps}
    yaml.safe_dump({'name': 'guide', 'on': 'push', 'jobs': {'test': job}}, file)
of_github = []
for step in steps:
    of_github += of_action(step) if 'uses' in step else [{'run': step['run'], 'env': {}}]

gitlab = gitlab.replace('https://FORGE', forge)
with open('gitlab.yml', 'w') as file:
    file.write(gitlab)
pipeline = yaml.safe_load(gitlab)
(included,) = pipeline.pop('include')
start = f'{forge}/{repository}/raw/v{version}/'
assert included['remote'].startswith(start), included
templates = load(included['remote'][len(start):])
((name, job),) = pipeline.items()
template = templates[job['extends']]
env = dict(template['variables'], **job['variables'])
run = '\n'.join(template['before_script'] + job['script'])
print(json.dumps({'github': of_github, 'gitlab': [{'run': run, 'env': env}]}))
"#;

#[derive(Deserialize)]
struct Jobs {
    github: Vec<Step>,
    gitlab: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    run: String,
    env: BTreeMap<String, String>,
}

fn jobs(cx: &Context) -> Result<Jobs, Failure> {
    let (repo, version) = (text(&cx.paths.repo), env!("CARGO_PKG_VERSION"));
    let url = format!("http://127.0.0.1:{PORT}");
    let words = ["python3", "-c", JOBS, &repo, version, &url, REPOSITORY];
    let ended = cx.program(words).env("PYTHONPATH", packages()?).succeed()?;
    Ok(serde_json::from_str(&ended.out).map_err(|e| e.to_string())?)
}

/// A forge that has the release's files where GitHub has them.
fn release(cx: &Context) -> Result<Running, Failure> {
    let (server, _) = forge(cx, PORT)?;
    let top = cx.dir().join("forge").join(REPOSITORY).join("releases");
    if !top.exists() {
        fs::create_dir_all(&top)?;
        symlink(cx.dir().join("forge"), top.join("download"))?;
    }
    Ok(server)
}

fn runs(cx: &Context, name: &str) -> Verdict {
    let _server = release(cx)?;
    let jobs = jobs(cx)?;
    let steps = if name == "github" {
        jobs.github
    } else {
        jobs.gitlab
    };
    ensure(!steps.is_empty(), "there are no steps")?;
    let home = home(cx, name)?;
    let mut last = String::new();
    for step in steps {
        let mut program = in_job(cx, &home, &step);
        if name == "github" {
            program = program
                .env("GITHUB_ENV", home.join(ADDED_ENV))
                .env("GITHUB_PATH", home.join(ADDED_PATH));
        }
        let ended = program.succeed()?;
        last = ended.out;
    }
    let shows = last.contains("uroce0") && last.contains("PORT_ACTIVE");
    ensure(shows, "the last command does not show the device").with(last)
}

/// A step of a job in this home directory, with what earlier steps added to the environment.
fn in_job(cx: &Context, home: &Path, step: &Step) -> Program {
    let bin = read(&home.join(ADDED_PATH));
    let all = std::env::var("PATH").unwrap_or_default();
    let all = bin.lines().map(|dir| format!("{dir}:")).collect::<String>() + &all;
    cx.program(["bash", "-eo", "pipefail", "-c", &step.run])
        .envs(&variables(&read(&home.join(ADDED_ENV))))
        .envs(&step.env)
        .env("PATH", all)
        .env("HOME", home)
        .dir(home)
        .limit(Duration::from_secs(120))
}
