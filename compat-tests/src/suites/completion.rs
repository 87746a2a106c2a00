//! The completion of with-ibverbs-rs in zsh, as packaging/completion has it. compat-tests/install checks
//! bash's.

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::verdict::{Failure, Verdict, ensure};

/// Types each line and a tab into an interactive zsh, in a pseudo-terminal, and prints the arguments that the
/// command gets. A function replaces with-ibverbs-rs. Waits until zsh is ready and for each result,
/// without a time limit of its own.
const SCRIPT: &str = r#"
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell "PS1=; PATH=$1:\$PATH; fpath=($2 \$fpath); autoload -Uz compinit; compinit -D -u
    with-ibverbs-rs() { print -r -- \"<\$*>\" }; echo read''y"
zpty -r shell out '*ready*'
for line in '--ch' '--ver' 'only_pro' '--check only_pro' '-- only_pro' 'ls --auth'; do
    zpty -w -n shell "with-ibverbs-rs $line"$'\t\n'
    zpty -r shell out '*<*>*'
    [[ $out =~ '<[^>]*>' ]] && print -r -- $MATCH
done
"#;

const EXPECTED: &str = "\
<--check>
<--version>
<only_program>
<--check only_program>
<-- only_program>
<ls --author>
";

pub fn cases() -> Vec<Case> {
    vec![Case::new("completion/zsh", zsh).tier(Tier::Check).limit(30)]
}

fn zsh(cx: &Context) -> Verdict {
    if !cx
        .program(["zsh", "--version"])
        .run()
        .is_ok_and(|ended| ended.ok())
    {
        return Err(Failure::skip("zsh is not installed: run make deps"));
    }
    cx.write("script", SCRIPT)?;
    let bin = cx.dir().join("bin");
    std::fs::create_dir(&bin)?;
    let program = bin.join("only_program");
    std::fs::write(&program, "")?;
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    let completions = cx.source("../packaging/completion");
    let words = ["zsh", "script"].map(String::from).into_iter();
    let ended = cx
        .program(words.chain([bin, completions].map(|dir| dir.display().to_string())))
        .succeed()?;
    ensure(
        ended.out == EXPECTED,
        format!("zsh completed to\n{}instead of\n{EXPECTED}", ended.out),
    )
}
