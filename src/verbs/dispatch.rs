//! The verbs that hand their arguments to the provider and add nothing.

/// Writes such verbs: `name(arguments) -> answer => [context] op(arguments)`. Each compiles to three
/// loads (the context, its private part, the operation) and a jump.
macro_rules! dispatch {
    ($($(#[$doc:meta])*
       $verb:ident($($arg:ident: $ty:ty),+ $(,)?) $(-> $answer:ty)?
       => [$context:expr] $op:ident($($given:expr),+);)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Each pointer to an object is to one that this library made and that lives; each pointer
        /// to attributes is to a struct that the provider may read, or write where it answers.
        pub unsafe extern "C" fn $verb($($arg: $ty),+) $(-> $answer)? {
            // SAFETY: the object lives, so its context does, whose table has every operation; the
            // operation asks of its arguments what this verb asks of its caller.
            unsafe { ($crate::provider::ops::ops($context).$op)($($given),+) }
        }
    )+};
}

pub(crate) use dispatch;
