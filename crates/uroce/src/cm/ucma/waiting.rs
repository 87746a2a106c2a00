//! Tests of GET_EVENT of a descriptor that another thread closes, as rping's main thread does.

use std::os::fd::AsRawFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::event_queue::EVENT_LEN;
use super::lifecycle::{end_connections, wait_for_thread};
use super::state::{ENDED, STARTED, STATE};
use super::*;
use crate::sync::Mutex;

/// The time in which a call that does not block has returned.
const WHILE: Duration = Duration::from_millis(100);

/// Held by each test: the last one ends all connections of the process.
static ONE_TEST: Mutex<()> = Mutex::new(());

fn get_event(file: os::FileId, fd: RawFd) -> Result<isize, Errno> {
    let mut event = [0_u8; EVENT_LEN];
    let mut message = [0_u8; 16];
    message[..4].copy_from_slice(&Command::GetEvent.number().to_ne_bytes());
    message[4..6].copy_from_slice(&8_u16.to_ne_bytes());
    message[6..8].copy_from_slice(&(EVENT_LEN as u16).to_ne_bytes());
    message[8..].copy_from_slice(&(event.as_mut_ptr().expose_provenance() as u64).to_ne_bytes());
    // SAFETY: the command names `event`, which is writable.
    unsafe { write_to(file, fd, message.as_ptr().cast(), message.len()) }
}

extern "C" fn nothing(_: c_int) {}

/// A thread that calls GET_EVENT. SIGUSR2 interrupts it.
fn waiting_thread(file: os::FileId, fd: RawFd) -> (JoinHandle<()>, Receiver<Result<isize, Errno>>) {
    // SAFETY: zeros are a valid sigaction; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut());
    }
    let (sender, result) = channel();
    let thread = std::thread::spawn(move || sender.send(get_event(file, fd)).unwrap());
    (thread, result)
}

fn goes_on_until_a_signal((thread, result): (JoinHandle<()>, Receiver<Result<isize, Errno>>)) {
    assert_eq!(result.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout));
    loop {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR2) };
        match result.recv_timeout(WHILE) {
            Err(RecvTimeoutError::Timeout) => {}
            other => break assert_eq!(other, Ok(Err(Errno(libc::EINTR)))),
        }
    }
    thread.join().unwrap();
}

/// Waits until the thread of rdma_cm has noticed that a descriptor is closed.
fn wait_until_closed(file: os::FileId) {
    while state::is_known(file) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn file_of(fd: &OwnedFd) -> os::FileId {
    state::file_of(fd.as_raw_fd()).unwrap()
}

/// The thread of rdma_cm has noticed it before GET_EVENT can execute the command.
#[test]
fn a_thread_waits_although_the_descriptor_is_closed() {
    let _one = ONE_TEST.lock();
    let fd = open(0).unwrap();
    let (file, number) = (file_of(&fd), fd.as_raw_fd());
    drop(fd);
    wait_until_closed(file);
    goes_on_until_a_signal(waiting_thread(file, number));
}

/// The thread of rdma_cm notices it after that.
#[test]
fn a_thread_waits_on_although_the_descriptor_is_closed() {
    let _one = ONE_TEST.lock();
    let fd = open(0).unwrap();
    let locked = STATE.lock();
    let waiting = waiting_thread(file_of(&fd), fd.as_raw_fd());
    // It waits for the lock.
    std::thread::sleep(WHILE);
    drop(fd);
    drop(locked);
    goes_on_until_a_signal(waiting);
}

/// The number of the descriptor is that of a socket by then, from which nothing can be read.
#[test]
fn a_thread_waits_on_although_the_number_is_another_file() {
    let _one = ONE_TEST.lock();
    let fd = open(0).unwrap();
    let number = fd.as_raw_fd();
    let locked = STATE.lock();
    let waiting = waiting_thread(file_of(&fd), number);
    // It waits for the lock.
    std::thread::sleep(WHILE);
    // SAFETY: the calls take no pointers. `fd` owns the number: it closes the new socket.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0);
        assert_eq!(libc::dup3(socket, number, libc::O_CLOEXEC), number);
        libc::close(socket);
    }
    drop(locked);
    goes_on_until_a_signal(waiting);
}

/// The descriptor is closed while GET_EVENT waits for an event.
#[test]
fn a_thread_that_blocks_is_not_disturbed_by_close() {
    let _one = ONE_TEST.lock();
    let fd = open(0).unwrap();
    let waiting = waiting_thread(file_of(&fd), fd.as_raw_fd());
    std::thread::sleep(WHILE);
    drop(fd);
    goes_on_until_a_signal(waiting);
}

#[test]
fn without_an_event_a_nonblocking_descriptor_does_not_block() {
    let _one = ONE_TEST.lock();
    let fd = open(libc::O_NONBLOCK).unwrap();
    assert_eq!(get_event(file_of(&fd), fd.as_raw_fd()), Err(EAGAIN));
}

/// The descriptor is gone when close(2) returns, as in the kernel.
#[test]
fn nothing_stays_open_when_a_device_is_closed() {
    let _one = ONE_TEST.lock();
    let fds = [open(0).unwrap(), open(0).unwrap()];
    let [first, second] = fds.each_ref().map(file_of);
    let [kept, closed] = fds;
    drop(closed);
    after_close();
    assert!(state::is_known(first) && !state::is_known(second));
    let copy = kept.try_clone().unwrap();
    drop(kept);
    after_close();
    assert!(state::is_known(first), "a copy is open");
    drop(copy);
    after_close();
    assert!(!state::is_known(first));
    assert!(STATE.lock().is_none());
    assert_eq!(
        ENDED.load(Ordering::Acquire),
        STARTED.load(Ordering::Relaxed)
    );
}

/// exit(3) has ended all connections, and the thread of rdma_cm has something to do. A call that begins
/// afterwards waits, too.
#[test]
fn a_thread_that_blocks_is_not_disturbed_by_exit() {
    let _one = ONE_TEST.lock();
    let (fd, nonblocking) = (open(0).unwrap(), open(libc::O_NONBLOCK).unwrap());
    let waiting = waiting_thread(file_of(&fd), fd.as_raw_fd());
    std::thread::sleep(WHILE);
    end_connections();
    let late = waiting_thread(file_of(&fd), fd.as_raw_fd());
    let file = file_of(&nonblocking);
    assert_eq!(get_event(file, nonblocking.as_raw_fd()), Err(EAGAIN));
    drop(nonblocking);
    wait_until_closed(file);
    goes_on_until_a_signal(waiting);
    goes_on_until_a_signal(late);
}

/// A peer that does not confirm that a connection is over delays one of several devices.
#[test]
fn closing_waits_once_for_a_peer() {
    let _one = ONE_TEST.lock();
    let fd = open(0).unwrap();
    let file = file_of(&fd);
    // As if a connection kept the thread: it has no file left, and does not end.
    let mut locked = STATE.lock();
    let state = locked.as_mut().unwrap();
    let files = std::mem::take(&mut state.files);
    state.manager.open(0);
    drop(locked);
    let start = Instant::now();
    assert_eq!([wait_for_thread(), wait_for_thread()], [true, false]);
    assert!(start.elapsed() >= WHILE);
    let mut locked = STATE.lock();
    let state = locked.as_mut().unwrap();
    state.manager.close(0, crate::device::clock::now());
    state.files = files;
    drop(locked);
    drop(fd);
    after_close();
    wait_until_closed(file);
    // The same thread; it may be waited for again.
    drop(open(0).unwrap());
    after_close();
    assert!(STATE.lock().is_none());
}
