//! The verbs over the device, an ops table as a provider of libibverbs has, a file per object.
