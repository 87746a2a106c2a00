# shellcheck shell=bash
# Completion of with-ibverbs-rs(1) in bash: its options, then the program, then what the program completes.
# Installed in share/bash-completion/completions, from which bash-completion loads it by its name.

_with_ibverbs_rs() {
    local i word current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    # The program is the first word that is not an option, or the one after "--".
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ $word == -* ]] || break
        [[ $word != -- || $i -eq $COMP_CWORD ]] || { i=$((i + 1)) && break; }
    done
    if ((i > COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -W '--check --help --version' -- "$current")
    elif ((i == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
        [[ $current != */* ]] || compopt -o filenames 2>/dev/null
    elif declare -F _comp_command_offset >/dev/null; then # bash-completion 2.12 and later
        _comp_command_offset "$i"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$i"
    else
        compopt -o default 2>/dev/null # file names
    fi
}
complete -F _with_ibverbs_rs with-ibverbs-rs
