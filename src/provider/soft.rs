//! Soft devices: those of `uroce`, which the kernel does not know. They are there only if the
//! environment names them (IBV_UROCE).

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use ibverbs_abi::{
    ibv_context, ibv_device, verbs_context_ops, verbs_device, verbs_device_ops, verbs_soft_core,
    verbs_soft_ops,
};
use uroce::device::config::{self, Config};

use super::context::{_verbs_init_and_alloc_context, verbs_uninit_context};
use super::{device, ops};
use crate::{env, log};

/// What devices get of the library.
static CORE: verbs_soft_core = verbs_soft_core {
    init_and_alloc_context: _verbs_init_and_alloc_context,
    default_ops: ops::defaults(),
    set_ops,
    uninit_context: verbs_uninit_context,
};

/// The table that all soft devices have, by which they are known; NULL as long as there are none.
static TABLE: AtomicPtr<verbs_device_ops> = AtomicPtr::new(ptr::null_mut());

/// # Safety
/// `context` is initialised, and nobody else uses its ops meanwhile.
unsafe fn set_ops(context: *mut ibv_context, table: &verbs_context_ops) {
    // SAFETY: by the contract; the library's own table has its slots in its own order.
    unsafe { ops::set_all(context, table) }
}

/// The device's own functions, if it is a soft device.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe fn of_device<'a>(device: *mut ibv_device) -> Option<&'a verbs_soft_ops> {
    let table = TABLE.load(Ordering::Relaxed);
    if table.is_null() {
        return None;
    }
    // SAFETY: every ibv_device is the start of a verbs_device.
    let ops = unsafe { (*device.cast::<verbs_device>()).ops };
    // SAFETY: that table is the first field of a verbs_soft_ops, a constant.
    ptr::eq(ops, table).then(|| unsafe { &*table.cast() })
}

/// The functions of a context's device, if that is a soft device.
///
/// # Safety
/// `context` is open.
#[inline]
pub unsafe fn of_context<'a>(context: *mut ibv_context) -> Option<&'a verbs_soft_ops> {
    // Neither has it a command descriptor, and that is the cheapest to see.
    // SAFETY: an open context.
    unsafe {
        if (*context).cmd_fd != -1 {
            return None;
        }
        of_context_without_descriptor(context)
    }
}

/// [`of_context`], away from the verbs that ask: a soft device, or mlx5 over VFIO.
///
/// # Safety
/// `context` is open.
#[cold]
#[inline(never)]
unsafe fn of_context_without_descriptor<'a>(
    context: *mut ibv_context,
) -> Option<&'a verbs_soft_ops> {
    // SAFETY: an open context holds its device.
    unsafe { of_device((*context).device) }
}

/// The soft devices of the library's list, in the order of IBV_UROCE.
#[derive(Default)]
pub struct SoftDevices {
    devices: Vec<Wanted>,
}

/// A device that the environment names, and what was made of it.
struct Wanted {
    config: Config,
    device: *mut verbs_device,
    told: bool,
}

// SAFETY: a device may be used by any thread, like all devices of the list.
unsafe impl Send for Wanted {}

impl SoftDevices {
    pub const fn new() -> Self {
        SoftDevices {
            devices: Vec::new(),
        }
    }

    /// Reads IBV_UROCE, once. A setuid program has none.
    pub fn initialize(&mut self) {
        let Some(value) = env::get(c"IBV_UROCE").filter(|_| env::trusted()) else {
            return;
        };
        let (devices, bad) = config::parse(value.to_bytes());
        for entry in bad {
            warn("bad IBV_UROCE entry ", &entry);
        }
        self.devices = devices.into_iter().map(Wanted::new).collect();
    }

    /// Makes the devices whose interface is there, and are not made yet. A device that was made stays.
    pub fn refresh(&mut self) {
        self.devices.iter_mut().for_each(Wanted::make);
    }

    /// The devices. The list keeps its references.
    pub fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        let devices = self.devices.iter().map(|wanted| wanted.device.cast());
        devices.filter(|device: &*mut ibv_device| !device.is_null())
    }
}

impl Wanted {
    fn new(config: Config) -> Self {
        Wanted {
            config,
            device: ptr::null_mut(),
            told: false,
        }
    }

    fn make(&mut self) {
        if !self.device.is_null() {
            return;
        }
        if let Err(error) = uroce::transport::check(&self.config) {
            if !self.told {
                warn(
                    "IBV_UROCE device ",
                    &format!("'{}': {error}", self.config.name),
                );
            }
            self.told = true;
            return;
        }
        self.device = uroce::provider::new_device(&CORE, self.config.clone());
        if !self.device.is_null() {
            // SAFETY: the device is new, and has the list's reference from here on.
            unsafe {
                TABLE.store((*self.device).ops.cast_mut(), Ordering::Relaxed);
                device::hold(self.device.cast());
            }
        }
    }
}

fn warn(about: &str, text: &str) {
    log::print(&[
        b"Warning: ignoring ",
        about.as_bytes(),
        text.as_bytes(),
        b"\n",
    ]);
}
