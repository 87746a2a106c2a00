//! Arguments of calls: objects that are NULL, destroyed or of another context, numbers out of their range,
//! and bits that nothing knows.

use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;
use crate::diagnose::shadow::Shadow;

/// An argument, or a member of the attributes that a call gets.
#[derive(Clone, Debug)]
pub enum Argument {
    /// An object of the context. `required`: it must not be NULL.
    Object {
        member: &'static str,
        kind: Kind,
        address: usize,
        required: bool,
    },
    /// A number, and what it means.
    Number {
        member: &'static str,
        value: u64,
        min: u64,
        max: u64,
        meaning: &'static str,
    },
    /// Flags, and those that verbs.h has for this call.
    Bits {
        member: &'static str,
        value: u64,
        known: u64,
    },
    /// A reason of its own, if it is wrong: what is wrong, why, and what to do.
    Reason {
        is_wrong: bool,
        what: String,
        why: &'static str,
        todo: &'static str,
    },
}

/// An object that must not be NULL.
pub fn object(member: &'static str, kind: Kind, address: usize) -> Argument {
    Argument::Object {
        member,
        kind,
        address,
        required: true,
    }
}

/// An object that may be NULL.
pub fn optional(member: &'static str, kind: Kind, address: usize) -> Argument {
    Argument::Object {
        member,
        kind,
        address,
        required: false,
    }
}

pub fn number(
    member: &'static str,
    value: impl TryInto<u64>,
    min: u64,
    max: impl TryInto<u64>,
    meaning: &'static str,
) -> Argument {
    Argument::Number {
        member,
        // A negative number is none that is valid.
        value: value.try_into().unwrap_or(u64::MAX),
        min,
        max: max.try_into().unwrap_or(u64::MAX),
        meaning,
    }
}

pub fn bits(member: &'static str, value: u64, known: u64) -> Argument {
    Argument::Bits {
        member,
        value,
        known,
    }
}

pub fn reason(
    is_wrong: bool,
    what: impl Into<String>,
    why: &'static str,
    todo: &'static str,
) -> Argument {
    Argument::Reason {
        is_wrong,
        what: what.into(),
        why,
        todo,
    }
}

/// The first of the arguments that is wrong.
pub fn first_wrong(
    arguments: &[Argument],
    shadow: &Shadow,
    context: usize,
    about: &Object,
    call: &'static str,
    outcome: &Outcome,
) -> Option<Finding> {
    let finding = |rule| Finding::new(rule, about.clone(), call, outcome.clone());
    arguments.iter().find_map(|argument| match argument {
        Argument::Object {
            member,
            kind,
            address: 0,
            required,
        } => required.then(|| {
            finding(Rule::NullObject)
                .with("member", member)
                .with("kind", kind.name())
        }),
        Argument::Object {
            member,
            kind,
            address,
            ..
        } => object_is_wrong(shadow, context, *kind, *address, member, &finding),
        _ => value_is_wrong(argument, &finding),
    })
}

/// An argument that is no object, and wrong.
fn value_is_wrong(argument: &Argument, finding: &impl Fn(Rule) -> Finding) -> Option<Finding> {
    match argument {
        Argument::Object { .. } => None,
        Argument::Number {
            member,
            value,
            min,
            max,
            meaning,
        } => (!(min..=max).contains(&value)).then(|| {
            let shown = match *value {
                u64::MAX => "negative".into(),
                value => value.to_string(),
            };
            finding(Rule::AttrRange)
                .with("member", member)
                .with("value", shown)
                .with("min", min)
                .with("max", max)
                .with("meaning", meaning)
                .with("hint", "")
        }),
        Argument::Bits {
            member,
            value,
            known,
        } => (value & !known != 0).then(|| {
            finding(Rule::UnknownBits)
                .with("member", member)
                .with("value", format!("{value:#x}"))
                .with("bits", format!("{:#x}", value & !known))
        }),
        Argument::Reason {
            is_wrong,
            what,
            why,
            todo,
        } => is_wrong.then(|| finding(Rule::Argument).with_texts(what, why, todo)),
    }
}

fn object_is_wrong(
    shadow: &Shadow,
    context: usize,
    kind: Kind,
    address: usize,
    member: &'static str,
    finding: &impl Fn(Rule) -> Finding,
) -> Option<Finding> {
    if shadow.is_gone(kind, address) {
        let mut found = finding(Rule::DeadObject).with_object(member, kind, address);
        found.notes.extend(shadow.gone.how(kind, address));
        return Some(found);
    }
    let other = shadow.context_of(kind, address)?;
    (other != context).then(|| {
        finding(Rule::OtherContext)
            .with_object(member, kind, address)
            .with("context", format!("{context:#x}"))
            .with("other", format!("{other:#x}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::shadow::tests::{rules, shadow_with_qp};
    use ibverbs_abi::IBV_QPS_RTS;

    fn judge(shadow: &Shadow, context: usize, argument: Argument) -> Vec<Rule> {
        let about = Object::at(Kind::Context, 1);
        let outcome = Outcome::of(libc::EINVAL);
        let found = first_wrong(&[argument], shadow, context, &about, "call", &outcome);
        rules(found.as_slice())
    }

    #[test]
    fn objects() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        let cq = |address| object("send_cq", Kind::Cq, address);
        assert_eq!(judge(&shadow, 1, cq(0)), [Rule::NullObject]);
        assert_eq!(judge(&shadow, 1, optional("srq", Kind::Srq, 0)), []);
        assert_eq!(judge(&shadow, 1, cq(20)), []);
        assert_eq!(judge(&shadow, 2, cq(20)), [Rule::OtherContext]);
        // It may be one that a provider's own function has created.
        assert_eq!(judge(&shadow, 1, cq(77)), []);
        let gone = shadow.cqs.take(20);
        shadow.destroyed(Kind::Cq, 20);
        assert_eq!(judge(&shadow, 1, cq(20)), [Rule::DeadObject]);
        shadow.add_cq(20, gone.unwrap());
        assert_eq!(judge(&shadow, 1, cq(20)), []);
    }

    #[test]
    fn numbers_and_bits() {
        let shadow = shadow_with_qp(IBV_QPS_RTS);
        for (value, wrong) in [(0_i32, true), (1, false), (8, false), (9, true), (-1, true)] {
            let found = judge(&shadow, 1, number("cqe", value, 1, 8_u32, "x"));
            assert_eq!(!found.is_empty(), wrong, "{value}");
        }
        assert_eq!(judge(&shadow, 1, bits("comp_mask", 5, 7)), []);
        assert_eq!(
            judge(&shadow, 1, bits("comp_mask", 8, 7)),
            [Rule::UnknownBits]
        );
        assert_eq!(judge(&shadow, 1, reason(false, "a", "b", "c")), []);
        assert_eq!(
            judge(&shadow, 1, reason(true, "a", "b", "c")),
            [Rule::Argument]
        );
    }
}
