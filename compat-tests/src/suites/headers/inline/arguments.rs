//! The arguments with which the generated program of `inline` calls a function.

use super::{Function, HeaderInterface};

/// C statements that prepare the arguments, and the arguments.
pub fn values(interface: &HeaderInterface, function: &Function) -> (String, Vec<String>) {
    let mut lines = String::new();
    let mut values = Vec::new();
    let builds_command = function
        .arguments
        .iter()
        .any(|kind| kind.contains("ibv_command_buffer") || kind.contains("ib_uverbs_attr"));
    for (at, kind) in function.arguments.iter().enumerate() {
        let value = if kind == "struct ibv_context *" {
            "CTX".into()
        } else if kind.ends_with('*') {
            if let Some(of) = pointed_struct(kind) {
                lines += &prepare(interface, of, &format!("arena[{at}]"));
            }
            format!("({kind})arena[{at}]")
        } else if kind == "unsigned short" && builds_command {
            "1".into()
        } else if function.name == "_ioctl_init_cmdb" {
            "number() % 20".into()
        } else {
            format!("({kind})number()")
        };
        values.push(value);
    }
    (lines, values)
}

/// The struct to which a type points directly.
fn pointed_struct(kind: &str) -> Option<&str> {
    let kind = kind.strip_prefix("const ").unwrap_or(kind);
    let name = kind.strip_prefix("struct ")?.strip_suffix(" *")?;
    name.bytes()
        .all(|c| c.is_ascii_alphanumeric() || c == b'_')
        .then_some(name)
}

/// C statements that make an object of `place` with which a call leads somewhere.
pub fn prepare(interface: &HeaderInterface, of: &str, place: &str) -> String {
    let object = format!("((struct {of} *){place})");
    let mut lines = String::new();
    let mut add = |line: String| lines += &format!("\t{line};\n");
    if interface.with_context.contains(of) {
        add(format!("{object}->context = CTX"));
    }
    if of == "ibv_qp_ex" {
        add(format!("{object}->qp_base.context = CTX"));
    }
    if !["verbs_context", "ibv_context_ops"].contains(&of) {
        for Function { name, .. } in interface.slots.get(of).into_iter().flatten() {
            add(format!("{object}->{name} = {of}_{name}"));
        }
    }
    let pd = "(struct ibv_pd *)arena[number() % 2 + 3]";
    match of {
        "ibv_mw" | "ibv_mr" => add(format!("{object}->pd = {pd}")),
        "ibv_mw_bind" => {
            add(format!(
                "{object}->bind_info.mr = number() % 3 ? (struct ibv_mr *)arena[MR] : NULL"
            ));
            add(format!("((struct ibv_mr *)arena[MR])->pd = {pd}"));
        }
        "ibv_query_device_ex_input" => add(format!("{object}->comp_mask = number() % 2")),
        "ibv_qp_init_attr_ex" | "ibv_srq_init_attr_ex" => {
            add(format!(
                "{object}->comp_mask = number() % 3 ? number() % 8 : number()"
            ));
        }
        "ibv_parent_domain_init_attr" => {
            add(format!(
                "{object}->pd = number() % 2 ? NULL : (struct ibv_pd *)arena[3]"
            ));
        }
        "ib_uverbs_attr" => add(format!("{object}->attr_id = 1")),
        "ibv_command_buffer" => {
            add(format!("{object}->next_attr = {object}->hdr.attrs + 1"));
            add(format!("{object}->last_attr = {object}->hdr.attrs + 3"));
        }
        _ => {}
    }
    lines
}
