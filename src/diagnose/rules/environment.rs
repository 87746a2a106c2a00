//! Rules about devices, their files and their providers (classes `Drivers` and `Environment`).

macro_rules! environment {
    ($($before:tt)*) => { collect! { $($before)*

    DriverMissing "driver-missing" Drivers Error:
        "the kernel has the device {device} (driver {driver}), and no provider supports it; {tried}",
        "the library needs a provider, a shared object, for each kind of device",
        "install the provider ({package}), or name it in IBV_DRIVERS";
    DriverRefused "driver-refused" Drivers Warning:
        "the provider {file} was not loaded: {reason}",
        "a provider is built for one ABI of libibverbs, and needs a library that has it",
        "install the provider of a release that this library supports (libibverbs-rs(7))";
    DriverTwice "driver-twice" Drivers Warning:
        "{count} providers have the name {provider}",
        "the first in the order of configuration drives the devices, the others are not used",
        "remove the others from /etc/libibverbs.d, or from IBV_DRIVERS";
    NoDevice "no-device" Environment Error:
        "there is no RDMA device",
        "{why}",
        "{todo}";
    NoDeviceFile "no-device-file" Environment Error:
        "the kernel has {device}, and {path} does not exist{container}",
        "a program opens the device by this file",
        "{todo}";
    NoPermission "no-permission" Environment Error:
        "{path} cannot be opened: {error}; its owner is {owner}, its mode {mode}",
        "opening a device needs read and write permission for this file",
        "add the user to the file's group, or change its mode by a udev rule; in a container, allow the \
         device (--device={path})";
    NoRdmaUcm "no-rdma-ucm" Environment Hint:
        "there are RDMA devices, and no /dev/infiniband/rdma_cm",
        "librdmacm needs the kernel module rdma_ucm",
        "load it (`modprobe rdma_ucm`); in a container, allow the file";

    } };
}
