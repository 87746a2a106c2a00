use std::io::Error;
use std::os::fd::RawFd;
use std::time::Instant;

use super::*;
use crate::device::handles::{self, ObjectKind};
use crate::{capture, descriptors, random};

/// Registers the handlers as the library does. Not at load, because other tests do not need them.
fn register_handlers() {
    extern "C" fn prepare() {
        crate::before_fork();
    }
    extern "C" fn parent() {
        // SAFETY: `prepare` ran in this thread, once per fork.
        unsafe { crate::after_fork(false) };
    }
    extern "C" fn child() {
        // SAFETY: `prepare` ran in this thread before the fork.
        unsafe { crate::after_fork(true) };
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers use statics only and do not unwind.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// A child, which ends with the code that `work` returns, or by a signal after 20 s.
struct Child(libc::pid_t);

impl Child {
    fn new(work: impl FnOnce() -> i32) -> Child {
        register_handlers();
        // SAFETY: the child uses what the fork handlers have made usable, and exits without handlers.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::alarm(20);
                libc::_exit(work());
            }
            assert!(pid > 0, "{}", Error::last_os_error());
            Child(pid)
        }
    }

    /// Waits for the child's end. Its exit code, or minus its signal.
    fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is writable.
        while unsafe { libc::waitpid(self.0, &mut status, 0) } != self.0 {
            let error = Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::EINTR));
        }
        match libc::WIFEXITED(status) {
            true => libc::WEXITSTATUS(status),
            false => -libc::WTERMSIG(status),
        }
    }
}

fn at(last: u8) -> Config {
    Config::new(
        &format!("fork{last}"),
        Netdev::Address {
            ip: [127, 77, 12, last].into(),
            scope: None,
        },
    )
}

/// Does what a child of fork may do: opens a device, creates, queries and closes. Returns 0 if all
/// of it works.
fn use_device(config: &Config) -> i32 {
    let Ok(device) = Device::open(config) else {
        return 1;
    };
    let Ok(reserved) = handles::reserve(ObjectKind::Pd, &device.objects, 1) else {
        return 2;
    };
    drop(reserved);
    let Ok((events, fd)) = device.events.add_context() else {
        return 3;
    };
    if device.net.alloc_qpn().is_err() || device.net.gids().is_empty() {
        return 4;
    }
    random::random();
    device.events.remove_context(&events);
    // SAFETY: `add_context` has opened it for this function.
    unsafe { libc::close(fd) };
    device.close();
    0
}

/// While another thread holds the lock, fork waits for it. So the child can use what the lock protects.
fn fork_waits_for<T: Send>(name: &str, lock: &'static Mutex<T>, config: &Config) {
    let guard = lock.lock();
    std::thread::scope(|scope| {
        let forking = scope.spawn(|| Child::new(|| use_device(config)));
        let end = Instant::now() + Duration::from_secs(20);
        // SAFETY: this reads the word of a static lock.
        while !unsafe { lock.raw() }.is_contended() {
            assert!(Instant::now() < end, "{name}: fork does not wait");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!forking.is_finished(), "{name}");
        drop(guard);
        assert_eq!(forking.join().unwrap().wait(), 0, "{name}");
    });
}

#[test]
fn a_child_can_use_every_lock_that_another_thread_held() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let config = at(1);
    // Some locks are taken by an open device only.
    let device = Device::open(&config).unwrap();
    fork_waits_for("open devices", &open_devices::OPEN_DEVICES, &config);
    fork_waits_for("handles", &handles::TABLE, &config);
    fork_waits_for("random numbers", &random::POOL, &config);
    fork_waits_for("capture", &capture::CURRENT, &config);
    fork_waits_for("descriptors", &descriptors::TABLE, &config);
    device.close();
}

/// The parent's descriptors are closed in the child, or at end-of-file if the program knows them.
#[test]
fn a_child_gives_up_the_descriptors() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let device = Device::open(&at(2)).unwrap();
    let (events, async_fd) = device.events.add_context().unwrap();
    let (channel, channel_fd) = device.events.add_channel().unwrap();
    let own = descriptors::own();
    assert!(
        own.len() >= 7,
        "epoll, eventfd, netlink, UDP, events: {own:?}"
    );
    let of_program = [async_fd, channel_fd];
    let child = Child::new(|| {
        // SAFETY: these calls take no pointers, or a writable buffer.
        let is_open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
        let mut byte = 0u8;
        let mut at_end = |fd: RawFd| {
            let at = (&raw mut byte).cast();
            // SAFETY: `at` is one writable byte.
            unsafe {
                libc::recv(fd, at, 1, libc::MSG_DONTWAIT) == 0
                    && libc::send(fd, at, 1, libc::MSG_NOSIGNAL) == -1
            }
        };
        if own.iter().any(is_open) {
            return 1;
        }
        if !of_program.into_iter().all(&mut at_end) {
            return 2;
        }
        // Dropping what it has inherited closes none of the child's own descriptors.
        // SAFETY: dup takes no pointers.
        let reused: Vec<RawFd> = own.iter().map(|_| unsafe { libc::dup(async_fd) }).collect();
        drop((events.clone(), channel.clone()));
        device.clone().close();
        if reused.iter().all(is_open) { 0 } else { 3 }
    });
    assert_eq!(child.wait(), 0);
    // The parent's are not affected.
    assert!(events.push(ib_uverbs_async_event_desc {
        element: 1,
        event_type: IBV_EVENT_PORT_ACTIVE,
        reserved: 0,
    }));
    let mut event = [0; size_of::<ib_uverbs_async_event_desc>()];
    let len = event.len();
    // SAFETY: `event` is writable for its length; both descriptors were opened for this test.
    unsafe {
        assert_eq!(
            libc::read(async_fd, event.as_mut_ptr().cast(), len),
            len as isize
        );
        device.events.remove_context(&events);
        device.events.remove_channel(&channel);
        drop((events, channel));
        libc::close(async_fd);
        libc::close(channel_fd);
    }
    device.close();
}

/// A child that lives on does not keep port 4791.
#[test]
fn the_port_is_free_while_a_child_lives() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let config = at(3);
    let primary = |device: &Device| device.net.alloc_qpn().unwrap() < 0x80_0000;
    let device = Device::open(&config).unwrap();
    assert!(primary(&device));
    let (mut ends, mut ready) = ([0; 2], [0; 2]);
    // SAFETY: both have room for two descriptors.
    let piped = unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)
            | libc::pipe2(ready.as_mut_ptr(), libc::O_CLOEXEC)
    };
    assert_eq!(piped, 0);
    let child = Child::new(|| {
        let mut byte = 0u8;
        // SAFETY: the child's copies of the pipes; one byte.
        unsafe {
            libc::close(ends[1]);
            libc::write(ready[1], (&raw const byte).cast(), 1);
            libc::read(ends[0], (&raw mut byte).cast(), 1) as i32
        }
    });
    let mut byte = 0u8;
    // SAFETY: one writable byte.
    let read = unsafe { libc::read(ready[0], (&raw mut byte).cast(), 1) };
    // Now the child has run its fork handler. On a busy host that is later than `fork` returns here.
    assert_eq!(read, 1);
    device.close();
    let again = Device::open(&config).unwrap();
    assert!(primary(&again), "the child holds port 4791");
    again.close();
    // SAFETY: this test opened the pipes.
    unsafe {
        libc::close(ends[1]);
        libc::close(ends[0]);
        libc::close(ready[1]);
        libc::close(ready[0]);
    }
    assert_eq!(child.wait(), 0);
}

/// The program may have closed a descriptor of uroce, and opened another one with its number.
#[test]
fn a_child_keeps_descriptors_of_the_program() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let device = Device::open(&at(4)).unwrap();
    let (channel, fd) = device.events.add_channel().unwrap();
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors; `fd` was opened for this test.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        assert_eq!(libc::dup3(ends[1], fd, libc::O_CLOEXEC), fd);
    }
    let child = Child::new(|| {
        // SAFETY: one readable byte.
        unsafe { libc::write(fd, c"x".as_ptr().cast(), 1) as i32 - 1 }
    });
    assert_eq!(child.wait(), 0);
    let mut byte = 0u8;
    // SAFETY: one writable byte; all descriptors are this test's.
    unsafe {
        assert_eq!(libc::read(ends[0], (&raw mut byte).cast(), 1), 1);
        device.events.remove_channel(&channel);
        drop(channel);
        for fd in [fd, ends[0], ends[1]] {
            libc::close(fd);
        }
    }
    device.close();
}

/// A child must not draw the random numbers that its parent draws.
#[test]
fn a_child_draws_numbers_of_its_own() {
    let (mut ours, mut ends) = ([0; 32], [0; 2]);
    random::random();
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let len = size_of_val(&ours);
    let child = Child::new(|| {
        let mut numbers = [0_u32; 32];
        numbers.fill_with(random::random);
        // SAFETY: `numbers` is readable for `len` bytes.
        (unsafe { libc::write(ends[1], numbers.as_ptr().cast(), len) } != len as isize).into()
    });
    ours.fill_with(random::random);
    let mut theirs = [0_u32; 32];
    // SAFETY: `theirs` has room for `len` bytes; this test opened the pipe.
    unsafe {
        libc::close(ends[1]);
        assert_eq!(
            libc::read(ends[0], theirs.as_mut_ptr().cast(), len),
            len as isize
        );
        libc::close(ends[0]);
    }
    assert_eq!(child.wait(), 0);
    assert!(ours.iter().all(|key| !theirs.contains(key)));
}
