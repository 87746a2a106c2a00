//! Verbs that only call the provider's op with the same arguments.

/// Defines such verbs: `name(arguments) -> type => [context] op(arguments)`. Each compiles to three
/// loads (the context, its private part, the op) and a jump.
macro_rules! dispatch {
    ($($(#[$doc:meta])*
       $verb:ident($($arg:ident: $ty:ty),+ $(,)?) $(-> $ret:ty)?
       => [$context:expr] $op:ident($($given:expr),+);)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Objects were created by this library and are alive; attributes are readable, and results
        /// are writable.
        pub unsafe extern "C" fn $verb($($arg: $ty),+) $(-> $ret)? {
            // SAFETY: the object is alive, so its context is open and has every op; the op has the same
            // requirements on its arguments as this verb.
            unsafe { ($crate::provider::ops::ops($context).$op)($($given),+) }
        }
    )+};
}

pub(crate) use dispatch;
