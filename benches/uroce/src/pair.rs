//! Runs a peer's server and client, and takes the figure from the client's output.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;

use compat_tests::process::wait_until;

use crate::environment::Environment;
use crate::peer::Peer;

/// A client that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// The server ends soon after its client.
const SERVER: Duration = Duration::from_secs(5);

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The figure of one run, or why there is none.
pub fn run(peer: &Peer, environment: &Environment, size: usize, port: u16) -> Result<f64, String> {
    let (server, client) = peer.commands(environment, size, port);
    let mut served = None;
    if !server.is_empty() {
        let mut command = environment.command(true, peer, &server);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut running = Running(command.spawn().map_err(|e| format!("{}: {e}", server[0]))?);
        if !environment.await_server(port, || running.is_alive()) {
            return Err("the server does not start".into());
        }
        served = Some(running);
    }
    let mut command = environment.command(false, peer, &client);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut running = Running(command.spawn().map_err(|e| format!("{}: {e}", client[0]))?);
    // The outputs are shorter than a pipe's buffer.
    if !wait_until(LIMIT, || !running.is_alive()) {
        return Err("hangs".into());
    }
    let mut output = String::new();
    if let Some(mut out) = running.0.stdout.take() {
        out.read_to_string(&mut output).map_err(|e| e.to_string())?;
    }
    if let Some(server) = &mut served {
        wait_until(SERVER, || !server.is_alive());
    }
    peer.figure(&output).ok_or_else(|| "fails".into())
}
