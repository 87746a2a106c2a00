//! The same exchange without RDMA: what the machine can do at best.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::round_trips::ping_pong;
use crate::shared::{Ring, fork_with, process_vm};

/// A measure, the size of its messages in bytes, and their number.
#[derive(Debug, clap::Args)]
pub struct Bare {
    measure: Measure,
    size: usize,
    count: usize,
    #[arg(long)]
    address: Option<IpAddr>,
    #[arg(long)]
    port: Option<u16>,
    /// Serve the other side, at the address and port
    #[arg(long)]
    server: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Measure {
    /// Ping-pong through shared memory, with a copy into it and one out of it
    Ring,
    /// Ping-pong by process_vm_writev into memory that the other side reads in a loop
    ProcessVm,
    /// Copying within the process
    Memcpy,
    /// Ping-pong of datagrams; both sides poll
    Udp,
    /// Ping-pong on a TCP connection; both sides poll
    Tcp,
    /// A stream of datagrams: what arrives
    UdpStream,
    /// A stream on a TCP connection
    TcpStream,
}

/// For how long datagrams are sent.
const STREAM: Duration = Duration::from_millis(200);

impl Bare {
    /// Runs the measure, or serves it, and prints the figure.
    pub fn run(&self) -> io::Result<()> {
        let figure = match self.measure {
            Measure::Ring => ring(self.size, self.count)?,
            Measure::ProcessVm => process_vm(self.size, self.count)?,
            Measure::Memcpy => memcpy(self.size, self.count),
            _ => {
                let at = (
                    self.address.ok_or(ErrorKind::InvalidInput)?,
                    self.port.unwrap_or(0),
                );
                match (self.server, self.measure) {
                    (true, _) => return self.serve(at),
                    (false, Measure::Udp | Measure::UdpStream) => self.send_datagrams(at)?,
                    (false, _) => self.send_on_connection(at)?,
                }
            }
        };
        println!("{figure:.3}");
        Ok(())
    }

    /// Accepts one TCP connection, and answers on it or by datagrams at the same port.
    fn serve(&self, at: (IpAddr, u16)) -> io::Result<()> {
        let datagrams = UdpSocket::bind(at)?;
        let (mut connection, _) = TcpListener::bind(at)?.accept()?;
        connection.set_nodelay(true)?;
        let mut buffer = vec![0; self.size];
        match self.measure {
            Measure::Udp => {
                datagrams.set_nonblocking(true)?;
                connection.set_nonblocking(true)?;
                // The client closes the connection at the end.
                for polls in 0_u64.. {
                    if let Some((_, from)) = now_or_never(datagrams.recv_from(&mut buffer))? {
                        datagrams.send_to(&buffer, from)?;
                    } else if polls % 1024 == 0
                        && now_or_never(connection.peek(&mut [0]))? == Some(0)
                    {
                        return Ok(());
                    }
                }
                Ok(())
            }
            Measure::UdpStream => {
                let end = Instant::now() + STREAM * 5;
                let (mut bytes, mut first, mut last) = (0, None, Instant::now());
                datagrams.set_read_timeout(Some(STREAM))?;
                while Instant::now() < end {
                    match datagrams.recv(&mut buffer) {
                        // Datagrams that wait when the first is read have been sent before.
                        Ok(len) if first.is_some() => (bytes, last) = (bytes + len, Instant::now()),
                        Ok(_) => first = Some(Instant::now()),
                        Err(_) if first.is_some() => break,
                        Err(_) => {}
                    }
                }
                let time = first
                    .map_or(Duration::ZERO, |first| last - first)
                    .as_secs_f64();
                writeln!(connection, "{:.3}", bytes as f64 / time.max(1e-9) / MIB)
            }
            Measure::Tcp => {
                connection.set_nonblocking(true)?;
                while read_polling(&mut connection, &mut buffer)? {
                    write_polling(&mut connection, &buffer)?;
                }
                Ok(())
            }
            _ => {
                for _ in 0..self.count {
                    connection.read_exact(&mut buffer)?;
                }
                connection.write_all(&[0])
            }
        }
    }

    fn send_datagrams(&self, at: (IpAddr, u16)) -> io::Result<f64> {
        let mut connection = TcpStream::connect(at)?;
        let any: IpAddr = if at.0.is_ipv4() {
            [0; 4].into()
        } else {
            [0_u8; 16].into()
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(at)?;
        let mut buffer = vec![0; self.size];
        if matches!(self.measure, Measure::Udp) {
            socket.set_nonblocking(true)?;
            return ping_pong(self.count, || {
                socket.send(&buffer)?;
                while now_or_never(socket.recv(&mut buffer))?.is_none() {}
                Ok(())
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < STREAM {
            // ENOBUFS: the queue of the interface is full.
            let _ = socket.send(&buffer);
        }
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        answer.trim().parse().map_err(io::Error::other)
    }

    fn send_on_connection(&self, at: (IpAddr, u16)) -> io::Result<f64> {
        let mut connection = TcpStream::connect(at)?;
        connection.set_nodelay(true)?;
        let mut buffer = vec![0; self.size];
        if matches!(self.measure, Measure::Tcp) {
            connection.set_nonblocking(true)?;
            return ping_pong(self.count, || {
                write_polling(&mut connection, &buffer)?;
                read_polling(&mut connection, &mut buffer).map(drop)
            });
        }
        let begin = Instant::now();
        for _ in 0..self.count {
            connection.write_all(&buffer)?;
        }
        connection.read_exact(&mut [0])?;
        Ok((self.count * self.size) as f64 / begin.elapsed().as_secs_f64() / MIB)
    }
}

const MIB: f64 = (1 << 20) as f64;

/// None if the call would block.
fn now_or_never<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fills the buffer; returns false at the end of the connection.
fn read_polling(connection: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
    let mut len = 0;
    while len < buffer.len() {
        match now_or_never(connection.read(&mut buffer[len..]))? {
            Some(0) => return Ok(false),
            Some(more) => len += more,
            None => {}
        }
    }
    Ok(true)
}

fn write_polling(connection: &mut TcpStream, mut buffer: &[u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        if let Some(len) = now_or_never(connection.write(buffer))? {
            buffer = &buffer[len..];
        }
    }
    Ok(())
}

fn ring(size: usize, count: usize) -> io::Result<f64> {
    let (to_child, to_parent) = (Ring::new(size)?, Ring::new(size)?);
    let echo = || {
        let mut buffer = vec![0; size];
        loop {
            to_child.receive(&mut buffer);
            to_parent.send(&buffer);
        }
    };
    let _child = fork_with(echo)?;
    let mut buffer = vec![0; size];
    ping_pong(count, || {
        to_child.send(&buffer);
        to_parent.receive(&mut buffer);
        Ok(())
    })
}

/// Copies memory, and returns the rate in MiB/s.
fn memcpy(size: usize, count: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
    let begin = Instant::now();
    for _ in 0..count {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
    }
    (count * size) as f64 / begin.elapsed().as_secs_f64() / MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_through_memory() {
        assert!(ring(3, 10).unwrap() > 0.0);
        assert!(process_vm(8, 10).unwrap() > 0.0);
        assert!(memcpy(8, 10) > 0.0);
    }
}
