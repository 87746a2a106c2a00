//! Compares the behaviour of inline functions.
//!
//! Generates a program that calls each inline function that both headers have. Every function that an
//! inline function may call (in contexts and objects, and those that the library exports) is replaced by
//! one that prints its arguments. The context is passed with all operations, with none, and with its size
//! ending before and after each operation. The arguments are pseudo-random, the same for both headers; the
//! replaced functions return different results in turn. The program is compiled with each of the headers,
//! without and with optimization. The outputs must be equal: the calls with their arguments, the results,
//! errno, and the changes in memory.

mod arguments;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::{Facts, Query};
use crate::compare;
use crate::context::Context;
use crate::paths::text;
use crate::verdict::{Failure, Verdict, ensure};
use arguments::{prepare, values};

/// Inline functions that require the operation: with a context that lacks it, rdma-core's crash.
const NEEDS_SLOT: [&str; 1] = ["ibv_close_xrcd"];
/// Structs with function pointers that are not operations of a context or an object.
const NO_OBJECTS: &[&str] = &[
    "verbs_context_ops", "verbs_device_ops", "_ibv_device_ops", "ibv_parent_domain_init_attr",
];

const START: &str = include_str!("../../../headers/inline-start.inc");
const EACH: &str = include_str!("../../../headers/inline-each.inc");
const MACROS: &str = include_str!("../../../headers/inline-macros.inc");

/// A function: name, type of the result, types of the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub result: String,
    pub arguments: Vec<String>,
}

/// One of the two sets of headers.
pub struct Side<'a> {
    pub facts: &'a Facts,
    pub query: &'a Query,
}

/// The functions that the program calls and replaces.
#[derive(Debug, Default)]
pub struct HeaderInterface {
    inlines: Vec<Function>,
    externs: Vec<Function>,
    /// The operations in each struct.
    pub slots: BTreeMap<String, Vec<Function>>,
    /// Structs with a member `context`.
    pub with_context: BTreeSet<String>,
}

/// Compares the inline functions of two sets of headers, except for `skipped`, and reports each optimization.
pub fn compare(
    cx: &Context,
    ours: &Side,
    theirs: &Side,
    skipped: &[&str],
    define: &[&str],
    headers: &[&str],
) -> Verdict {
    let interface = HeaderInterface::common(theirs.facts, ours.facts, skipped);
    let source = cx.write("inline.c", interface.source(headers))?;
    for optimise in ["-O0", "-O2"] {
        let run = |who: &str, side: &Side| -> Result<String, Failure> {
            let out = cx.dir().join(who).to_string_lossy().into_owned();
            let mut gcc: Vec<String> = ["gcc", "-std=gnu17", "-w", optimise]
                .map(String::from)
                .into();
            gcc.extend(
                side.query
                    .include
                    .iter()
                    .map(|dir| format!("-I{}", dir.display())),
            );
            gcc.extend(define.iter().map(|definition| format!("-D{definition}")));
            gcc.extend(["-o".into(), out.clone(), text(&source)]);
            cx.output(gcc)?;
            let ended = cx.program([out]).limit(Duration::from_secs(60)).succeed()?;
            Ok(ended.out)
        };
        let (their_calls, our_calls) = (run("theirs", theirs)?, run("ours", ours)?);
        let calls = their_calls.lines().count();
        let reached = their_calls
            .lines()
            .filter(|line| line.contains(" -> "))
            .count();
        let number = interface.inlines.len();
        println!(
            "{number} inline functions {optimise}: {calls} calls, {reached} of them call a function"
        );
        let equal = compare::same(("theirs", &their_calls), ("ours", &our_calls));
        let enough = || {
            ensure(
                number > 50 && reached > 10_000,
                format!("only {reached} calls"),
            )
        };
        cx.report(
            optimise.trim_start_matches('-'),
            equal.and_then(|()| enough()),
        )?;
    }
    Ok(())
}

/// Splits a function's type into the result type and the list of argument types.
fn split(text: &str) -> (String, Vec<String>) {
    let mut depth = 0;
    let begin = text.char_indices().rev().find(|(_, letter)| {
        depth += level(*letter);
        depth == 0
    });
    let begin = begin.map_or(0, |(at, _)| at);
    let inside = &text[begin + 1..text.len() - 1];
    let (mut parts, mut depth, mut last) = (Vec::new(), 0, 0);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        depth += level(letter);
        if letter == ',' && depth == 0 {
            parts.push(inside[last..at].trim().to_string());
            last = (at + 1).min(inside.len());
        }
    }
    parts.retain(|part| !part.is_empty() && part != "void");
    (text[..begin].trim().into(), parts)
}

fn level(letter: char) -> i32 {
    match letter {
        '(' => 1,
        ')' => -1,
        _ => 0,
    }
}

impl Function {
    fn new(name: &str, kind: &str) -> Self {
        let (result, arguments) = split(kind);
        Self {
            name: name.into(),
            result,
            arguments,
        }
    }

    /// A function that prints its arguments.
    fn mock(&self, shown: &str, symbol: &str, storage: &str) -> String {
        let parameter = |(i, kind): (usize, &String)| {
            let blank = if kind.ends_with('*') { "" } else { " " };
            format!("{kind}{blank}a{i}")
        };
        let parameters: Vec<String> = self.arguments.iter().enumerate().map(parameter).collect();
        let parameters = if parameters.is_empty() {
            "void".into()
        } else {
            parameters.join(", ")
        };
        let shows: Vec<String> = (0..self.arguments.len())
            .map(|i| format!("\n\tshow((unsigned long)a{i});"))
            .collect();
        let shows = shows.join(" printf(\", \");");
        let result = &self.result;
        let back = match result.as_str() {
            "void" => String::new(),
            pointer if pointer.ends_with('*') => format!("return ({result})some_result();"),
            _ => format!("return ({result})some_number();"),
        };
        let body = format!("\tprintf(\" -> {shown}(\");{shows}\n\tprintf(\")\");\n\t{back}\n");
        format!("{storage}{result} {symbol}({parameters})\n{{\n{body}}}\n")
    }
}

impl HeaderInterface {
    /// The functions of theirs that ours have too.
    fn common(theirs: &Facts, ours: &Facts, skipped: &[&str]) -> Self {
        let name_of = |fact: &str| fact.split(' ').nth(2).unwrap_or_default().to_string();
        let inline = ours
            .iter()
            .filter(|fact| fact.starts_with("function inline "));
        let present: BTreeSet<String> = inline.map(|fact| name_of(fact)).collect();
        let mut interface = Self::default();
        for fact in theirs {
            if let Some(rest) = fact.strip_prefix("function inline ") {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                if present.contains(name) && !skipped.contains(&name) {
                    interface.inlines.push(Function::new(name, kind));
                }
            } else if let Some(rest) = fact.strip_prefix("function ") {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                if !fact.contains("...") && ours.contains(fact) {
                    interface.externs.push(Function::new(name, kind));
                }
            } else if let Some(rest) = fact.strip_prefix("field ") {
                interface.field(rest);
            }
        }
        let in_ours = |slot: &Function| {
            let start = format!("field verbs_context.{} ", slot.name);
            ours.iter().any(|fact| fact.starts_with(&start))
        };
        interface
            .slots
            .entry("verbs_context".into())
            .or_default()
            .retain(in_ours);
        interface
    }

    /// A field: an operation, or a pointer to the context. `rest` is `STRUCT.PATH ... type TYPE`.
    fn field(&mut self, rest: &str) {
        let Some((path, kind)) = rest.split_once(" type ") else {
            return;
        };
        let path = path.split(' ').next().unwrap_or_default();
        let Some((of, field)) = path.split_once('.') else {
            return;
        };
        if field == "context" && kind == "struct ibv_context *" {
            self.with_context.insert(of.into());
        }
        let pointer = kind.split_once("(*)(").filter(|_| kind.ends_with(')'));
        let Some((result, arguments)) = pointer else {
            return;
        };
        let is_slot =
            !NO_OBJECTS.contains(&of) && !field.starts_with("_compat") && !field.contains('.');
        if is_slot {
            let slot = Function::new(field, &format!("{result}({arguments}"));
            self.slots.entry(of.into()).or_default().push(slot);
        }
    }

    fn source(&self, headers: &[&str]) -> String {
        let mut text = String::from("#define _GNU_SOURCE\n");
        text.extend(
            headers
                .iter()
                .map(|header| format!("#include <{header}>\n")),
        );
        text += START;
        for (of, slots) in &self.slots {
            for slot in slots {
                let (shown, symbol) =
                    (format!("{of}.{}", slot.name), format!("{of}_{}", slot.name));
                text += &slot.mock(&shown, &symbol, "static ");
            }
        }
        for function in &self.externs {
            // in parentheses, as some are macros too
            text += &function.mock(&function.name, &format!("({})", function.name), "");
        }
        if self
            .inlines
            .iter()
            .any(|function| function.name == "verbs_is_destroy_err")
        {
            text += "bool verbs_allow_disassociate_destroy;\n";
        }
        text += &self.set_slots();
        text.extend(self.inlines.iter().map(|function| self.caller(function)));
        text += "static const size_t ends[] = {\n\tsizeof(struct verbs_context),\n";
        for slot in self.slots_of("verbs_context") {
            let end = format!(
                "\tsizeof(struct verbs_context) - offsetof(struct verbs_context, {})",
                slot.name
            );
            text += &format!("{end},\n{end} - 1,\n");
        }
        text += "};\n\nstatic void each(const char *name, void (*call)(void), int needs_slot)\n{\n";
        text += EACH;
        text += "int main(void)\n{\n";
        for Function { name, .. } in &self.inlines {
            let needs = i32::from(NEEDS_SLOT.contains(&name.as_str()));
            text += &format!("\teach(\"{name}\", call_{name}, {needs});\n");
        }
        text + MACROS + "\treturn 0;\n}\n"
    }

    fn slots_of(&self, of: &str) -> &[Function] {
        self.slots.get(of).map_or(&[], Vec::as_slice)
    }

    fn set_slots(&self) -> String {
        let mut text = String::from("static void set_slots(int present)\n{\n");
        for Function { name, .. } in self.slots_of("verbs_context") {
            text += &format!("\textended.ctx.{name} = present ? verbs_context_{name} : NULL;\n");
        }
        for Function { name, .. } in self.slots_of("ibv_context_ops") {
            let absent = if name == "alloc_mw" {
                "NULL".into()
            } else {
                format!("ibv_context_ops_{name}")
            };
            text += &format!("\tCTX->ops.{name} = present ? ibv_context_ops_{name} : {absent};\n");
        }
        text + "}\n"
    }

    /// Makes arguments and calls the function.
    fn caller(&self, function: &Function) -> String {
        let Function { name, result, .. } = function;
        let (mut lines, values) = values(self, function);
        if result == "struct ibv_wq *" {
            lines += &prepare(self, "ibv_wq", "arena[RESULT]");
        }
        if name == "verbs_is_destroy_err" {
            lines += "\tverbs_allow_disassociate_destroy = mode % 2;\n\
                      \t*(int *)arena[0] = mode < 3 ? EIO : mode - 3;\n";
        }
        let call = format!("{name}({})", values.join(", "));
        lines += "\tmemcpy(before, arena, sizeof(arena));\n";
        lines += &if result == "void" {
            format!("\t{call};\n")
        } else {
            format!(
                "\tunsigned long result = (unsigned long){call};\n\tprintf(\" = \");\n\tshow(result);\n"
            )
        };
        format!("static void call_{name}(void)\n{{\n{lines}}}\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_functions_are_split() {
        let (result, arguments) = split("int (struct x *, void (*)(int, int), const char *)");
        assert_eq!(result, "int");
        assert_eq!(
            arguments,
            ["struct x *", "void (*)(int, int)", "const char *"]
        );
        assert_eq!(split("void (void)"), ("void".into(), vec![]));
    }

    #[test]
    fn what_both_have_is_called() {
        let theirs: Facts = [
            "function inline f int (struct ibv_context *)",
            "function inline g int (int)",
            "field s.context offset 0 size 8 type struct ibv_context *",
            "field verbs_context.op from the end 8 size 8 type int (*)(int)",
        ]
        .map(String::from)
        .into();
        let ours = theirs
            .iter()
            .filter(|fact| !fact.contains(" g "))
            .cloned()
            .collect();
        let interface = HeaderInterface::common(&theirs, &ours, &[]);
        assert_eq!(interface.inlines.len(), 1);
        assert!(interface.with_context.contains("s"));
        let op = Function {
            name: "op".into(),
            result: "int".into(),
            arguments: vec!["int".into()],
        };
        assert_eq!(interface.slots["verbs_context"], [op]);
        assert!(interface.source(&["x.h"]).contains("call_f"));
    }
}
