//! The program's contexts, queue pairs, CQs and SRQs: the objects of which events can be raised,
//! and the queue pair that a completion is of.
//!
//! Invariant: an object is here only while it is alive. It is removed before the provider destroys it, with
//! the lock held, and put back if that fails.

use std::collections::{BTreeMap, BTreeSet};

use ibverbs_abi::*;
use ibverbs_faults::Rule;

use super::super::check::state;
use super::super::originals::provider;
use super::{changes, device_name, kernel_events};
use crate::memory::lock::ForkLock;
use crate::provider::event::{Subject, subject};
use crate::provider::software;

/// An object of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FaultObject {
    pub kind: FaultObjectKind,
    pub context: usize,
    pub address: usize,
    /// The number of a queue pair, or 0.
    pub qpn: u32,
    /// The number by which events name it, on a software device.
    pub handle: u32,
    /// Injected events that the program has read, on a device of the kernel.
    pub injected: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultObjectKind {
    Cq,
    Qp,
    Srq,
}

/// An open device.
struct FaultContext {
    device: String,
    /// PORT_ERR was raised, and not PORT_ACTIVE since.
    port_down: bool,
}

struct Objects {
    contexts: BTreeMap<usize, FaultContext>,
    /// The objects, by address.
    objects: BTreeMap<usize, FaultObject>,
    /// Queue pairs by context and number.
    numbers: BTreeMap<(usize, u32), usize>,
}

static OBJECTS: ForkLock<Objects> = ForkLock::new(Objects {
    contexts: BTreeMap::new(),
    objects: BTreeMap::new(),
    numbers: BTreeMap::new(),
});

/// A device was opened, and has the wrappers of this module.
///
/// # Safety
/// `context` is open.
pub unsafe fn opened(context: *mut ibv_context) {
    // SAFETY: the context is open, as the caller promises.
    let device = unsafe { device_name(context) }.to_string();
    let new = FaultContext {
        device,
        port_down: false,
    };
    OBJECTS.with(|all| all.contexts.insert(context as usize, new));
}

/// A device is about to be closed.
pub fn closing(context: *mut ibv_context) {
    let context = context as usize;
    OBJECTS.with(|all| {
        all.contexts.remove(&context);
        all.objects.retain(|_, object| object.context != context);
        all.numbers.retain(|(of, _), _| *of != context);
    });
}

pub fn add(object: FaultObject) {
    OBJECTS.with(|all| all.add(object));
    changes::notify();
}

/// Removes an object, before it is destroyed.
pub fn remove(address: usize) -> Option<FaultObject> {
    let removed = OBJECTS.with(|all| {
        let removed = all.objects.remove(&address)?;
        all.numbers.remove(&(removed.context, removed.qpn));
        Some(removed)
    });
    let removed = removed.flatten();
    if let Some(object) = &removed {
        kernel_events::discard(object.context, object.address);
    }
    removed
}

/// The program reads an injected event. False if the event is of an object that is gone.
pub fn delivered(event: &ib_uverbs_async_event_desc) -> bool {
    if subject(event.event_type) == Subject::Port {
        return true;
    }
    let counted = OBJECTS.with(|all| {
        let object = all.objects.get_mut(&(event.element as usize))?;
        object.injected += 1;
        Some(())
    });
    counted.flatten().is_some()
}

impl FaultObject {
    /// Adds `count` to the acknowledged events of the object. The provider destroys an object when as many
    /// are acknowledged as the kernel has reported, which does not count those that were injected.
    ///
    /// # Safety
    /// The object is alive.
    pub unsafe fn count_acknowledged(&self, count: u32) {
        if count == 0 {
            return;
        }
        // SAFETY: the object is alive, as the caller promises, and of this kind. The program has read an
        // event of it, so its verb has initialised the mutex, which protects the counter.
        unsafe {
            let (mutex, counter) = match self.kind {
                FaultObjectKind::Cq => {
                    let cq = self.address as *mut ibv_cq;
                    (&raw mut (*cq).mutex, &raw mut (*cq).async_events_completed)
                }
                FaultObjectKind::Qp => {
                    let qp = self.address as *mut ibv_qp;
                    (&raw mut (*qp).mutex, &raw mut (*qp).events_completed)
                }
                FaultObjectKind::Srq => {
                    let srq = self.address as *mut ibv_srq;
                    (&raw mut (*srq).mutex, &raw mut (*srq).events_completed)
                }
            };
            libc::pthread_mutex_lock(mutex);
            *counter = (*counter).wrapping_add(count);
            libc::pthread_mutex_unlock(mutex);
        }
    }
}

impl Objects {
    fn add(&mut self, object: FaultObject) {
        if object.kind == FaultObjectKind::Qp {
            let number = (object.context, object.qpn);
            self.numbers.insert(number, object.address);
        }
        self.objects.insert(object.address, object);
    }

    fn is_of(&self, context: usize, rule: &Rule) -> bool {
        let Some(context) = self.contexts.get(&context) else {
            return false;
        };
        rule.device
            .as_ref()
            .is_none_or(|name| *name == context.device)
    }

    /// The objects of a kind that a rule is for.
    fn matching(&self, kind: FaultObjectKind, rule: &Rule) -> Vec<FaultObject> {
        let fits = |object: &&FaultObject| {
            object.kind == kind
                && rule.qpn.is_none_or(|qpn| object.qpn == qpn)
                && self.is_of(object.context, rule)
        };
        self.objects.values().filter(fits).copied().collect()
    }
}

/// The names of the open devices.
pub fn devices() -> Vec<String> {
    let names = OBJECTS.with(|all| all.contexts.values().map(|of| of.device.clone()).collect());
    names.unwrap_or_default()
}

/// A queue pair of a device without status of its own.
pub struct KernelQp {
    pub device: String,
    pub qpn: u32,
    pub kind: &'static str,
    pub state: &'static str,
    /// The peer's queue pair number, if it is connected.
    pub dest_qpn: Option<u32>,
}

/// The queue pairs of the program. Asks the provider for the state of each.
pub fn queue_pairs() -> Vec<KernelQp> {
    let known = OBJECTS.with(|all| {
        let objects = all.objects.values();
        let qps = objects.filter(|object| object.kind == FaultObjectKind::Qp);
        let described = |object: &FaultObject| {
            let device = all
                .contexts
                .get(&object.context)
                .map(|of| of.device.clone());
            // SAFETY: the queue pair is in the table, so it is alive, and the lock keeps it so; its
            // context is wrapped, because only those of wrapped contexts are in the table.
            unsafe { described(device.unwrap_or_default(), object.address as *mut ibv_qp) }
        };
        qps.map(described).collect()
    });
    known.unwrap_or_default()
}

/// # Safety
/// `qp` is alive, and its context is open and wrapped.
unsafe fn described(device: String, qp: *mut ibv_qp) -> KernelQp {
    let mut attr = core::mem::MaybeUninit::<ibv_qp_attr>::zeroed();
    let mut init = core::mem::MaybeUninit::<ibv_qp_init_attr>::zeroed();
    let mask = (IBV_QP_STATE | IBV_QP_DEST_QPN) as i32;
    // SAFETY: all members are integers, pointers and bytes, for which zeros are valid; the queue pair is
    // alive and its context wrapped, as the caller promises.
    let (err, attr) = unsafe {
        let query = provider((*qp).context).query_qp;
        let err = query(qp, attr.as_mut_ptr(), mask, init.as_mut_ptr());
        (err, attr.assume_init())
    };
    // SAFETY: the queue pair is alive, as the caller promises.
    let (qpn, kind) = unsafe { ((*qp).qp_num, (*qp).qp_type) };
    let is_connected = err == 0 && attr.qp_state >= IBV_QPS_RTR && kind != IBV_QPT_UD;
    KernelQp {
        device,
        qpn,
        kind: state::type_name(kind),
        state: if err == 0 {
            state::state_name(attr.qp_state)
        } else {
            "?"
        },
        dest_qpn: is_connected.then_some(attr.dest_qp_num),
    }
}

/// Moves a queue pair to ERR, as a device does that reports an error of it.
///
/// # Safety
/// `qp` is alive, and its context is open and wrapped.
unsafe fn fail(qp: *mut ibv_qp) {
    let mut attr = core::mem::MaybeUninit::<ibv_qp_attr>::zeroed();
    // SAFETY: all members are integers and bytes, for which zeros are valid; the queue pair is alive and its
    // context wrapped, as the caller promises.
    unsafe {
        (*attr.as_mut_ptr()).qp_state = IBV_QPS_ERR;
        (provider((*qp).context).modify_qp)(qp, attr.as_mut_ptr(), IBV_QP_STATE as i32);
    }
}

/// Moves the queue pair of a completion to ERR, if the program has not destroyed it.
pub fn fail_qp(context: *mut ibv_context, qpn: u32) {
    OBJECTS.with(|all| {
        if let Some(address) = all.numbers.get(&(context as usize, qpn)) {
            // SAFETY: the queue pair is in the table, so it is alive, and the lock keeps it so; its
            // context is wrapped, because only those of wrapped contexts are in the table.
            unsafe { fail(*address as *mut ibv_qp) };
        }
    });
}

/// Raises the event of a rule for everything that the rule is for. Before each it calls `log` with what that
/// is, in words: a program may end as soon as it has the event. False if the program has no such object now.
pub fn raise(kind: ibv_event_type, rule: &Rule, log: &dyn Fn(&str)) -> bool {
    let raised = OBJECTS.with(|all| match subject(kind) {
        Subject::Port => all.raise_of_port(kind, rule, log),
        Subject::Cq => all.raise_of(FaultObjectKind::Cq, kind, rule, log),
        Subject::Qp => all.raise_of(FaultObjectKind::Qp, kind, rule, log),
        Subject::Srq => all.raise_of(FaultObjectKind::Srq, kind, rule, log),
        // Work queues are not in the table, and no rule has their event.
        Subject::Wq => false,
    });
    raised.unwrap_or(false)
}

/// Removes the GIDs of the devices that the rule is for, or lets them come back. Only software devices do
/// that. Before each it calls `log` with the device. False if the program has no such device open.
pub fn set_gids(present: bool, rule: &Rule, log: &dyn Fn(&str)) -> bool {
    let devices = OBJECTS.with(|all| {
        let is_meant = |at: &usize| all.is_of(*at, rule);
        let contexts = all.contexts.iter().filter(|(at, _)| is_meant(at));
        let names: BTreeSet<String> = contexts.map(|(_, of)| of.device.clone()).collect();
        names
    });
    let devices = devices.unwrap_or_default();
    for device in &devices {
        log(device);
        software::set_gids(device, present);
    }
    !devices.is_empty()
}

impl Objects {
    fn raise_of_port(&mut self, kind: ibv_event_type, rule: &Rule, log: &dyn Fn(&str)) -> bool {
        let is_meant = |at: &usize| rule.qpn.is_none() && self.is_of(*at, rule);
        let contexts: Vec<usize> = self.contexts.keys().copied().filter(is_meant).collect();
        for &context in &contexts {
            if let Some(of) = self.contexts.get_mut(&context) {
                log(&of.device);
                of.port_down = match kind {
                    IBV_EVENT_PORT_ERR => true,
                    IBV_EVENT_PORT_ACTIVE => false,
                    _ => of.port_down,
                };
            }
            if kind == IBV_EVENT_DEVICE_FATAL {
                self.fail_all(context);
            }
            let event = ib_uverbs_async_event_desc {
                element: 1,
                event_type: kind,
                reserved: 0,
            };
            // SAFETY: the context is in the table, so it is open, and the lock keeps it so.
            unsafe { raise_event(context, event) };
        }
        !contexts.is_empty()
    }

    fn fail_all(&self, context: usize) {
        let of =
            |object: &&FaultObject| object.kind == FaultObjectKind::Qp && object.context == context;
        for object in self.objects.values().filter(of) {
            // SAFETY: the queue pair is in the table, so it is alive, and the lock keeps it so.
            unsafe { fail(object.address as *mut ibv_qp) };
        }
    }

    fn raise_of(
        &self,
        kind: FaultObjectKind,
        event: ibv_event_type,
        rule: &Rule,
        log: &dyn Fn(&str),
    ) -> bool {
        let mut raised = false;
        for object in self.matching(kind, rule) {
            raised = true;
            let device = self.contexts.get(&object.context).map(|of| &of.device[..]);
            let device = device.unwrap_or_default();
            log(&match kind {
                FaultObjectKind::Qp => format!("{device}, QP {:#x}", object.qpn),
                _ => format!("{device}, {kind:?} {:#x}", object.address),
            });
            if event == IBV_EVENT_QP_FATAL {
                // SAFETY: the queue pair is in the table, so it is alive, and the lock keeps it so.
                unsafe { fail(object.address as *mut ibv_qp) };
            }
            // SAFETY: the object's context is open while the object is in the table.
            let is_software =
                unsafe { software::of_context(object.context as *mut ibv_context) }.is_some();
            let desc = ib_uverbs_async_event_desc {
                element: match is_software {
                    true => object.handle.into(),
                    false => object.address as u64,
                },
                event_type: event,
                reserved: 0,
            };
            // SAFETY: the object's context is open while the object is in the table.
            unsafe { raise_event(object.context, desc) };
        }
        raised
    }
}

/// Raises an event of a software device, or injects it into those of the kernel.
///
/// # Safety
/// `context` is open.
unsafe fn raise_event(context: usize, event: ib_uverbs_async_event_desc) {
    if !kernel_events::inject(context, event) {
        // SAFETY: the context is open, as the caller promises.
        unsafe { software::raise_event(context as *mut ibv_context, &event) };
    }
}

/// Whether the port of a context's device is down, by an event that was raised.
pub fn is_port_down(context: *mut ibv_context) -> bool {
    let down = OBJECTS.with(|all| {
        let context = all.contexts.get(&(context as usize));
        context.is_some_and(|context| context.port_down)
    });
    down.unwrap_or(false)
}

pub fn prepare_fork() {
    OBJECTS.prepare_fork(|_| ());
}

pub fn after_fork() {
    OBJECTS.after_fork();
}
