//! Rendezvous: each rank writes its address into a folder and connects to the next rank.

use std::{
    env, fs,
    io::{self, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use crate::options::ProgramOptions;

const HELLO: &[u8; 8] = b"burnin-1";

/// The first bytes on a new connection: rank, number of ranks, and a fingerprint of the flags.
pub fn hello(rank: usize, ranks: usize, options: &ProgramOptions) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..8].copy_from_slice(HELLO);
    hello[8..16].copy_from_slice(&(rank as u64).to_be_bytes());
    hello[16..24].copy_from_slice(&(ranks as u64).to_be_bytes());
    hello[24..].copy_from_slice(&options.fingerprint().to_be_bytes());
    hello
}

/// Listens and publishes the address in the rendezvous folder, atomically by renaming the file.
pub fn publish(rank: usize, rendezvous: &Path) -> io::Result<TcpListener> {
    // Slurm's node name, if it is a name on the network, makes this rank reachable from other hosts.
    let host = env::var("BURNIN_HOST").or_else(|_| env::var("SLURMD_NODENAME"));
    let host = host.unwrap_or_else(|_| "127.0.0.1".to_owned());
    let known = env::var("BURNIN_PORT").ok().map(|text| match text.parse::<u16>() {
        Ok(port) if usize::from(port) + rank <= usize::from(u16::MAX) => Ok(port + rank as u16),
        _ => Err(io::Error::other(format!(
            "BURNIN_PORT: expected a base port for rank {rank}, found {text:?}"
        ))),
    });
    let listener = match known.transpose()? {
        Some(port) => TcpListener::bind((host.as_str(), port))?,
        None => TcpListener::bind((host.as_str(), 0)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?,
    };
    let draft = rendezvous.join(format!("rank-{rank}.{}", process::id()));
    fs::write(&draft, listener.local_addr()?.to_string())?;
    fs::rename(draft, rendezvous.join(format!("rank-{rank}")))?;
    Ok(listener)
}

pub fn call(peer: usize, rendezvous: &Path, timeout: Duration, hello: &[u8]) -> io::Result<TcpStream> {
    let file = rendezvous.join(format!("rank-{peer}"));
    poll(timeout, &format!("rank {peer} did not appear"), || {
        // An earlier run's address refuses connections until this run's rank has replaced the file.
        let Ok(address) = fs::read_to_string(&file) else { return Ok(None) };
        let Ok(mut stream) = TcpStream::connect(address.as_str()) else { return Ok(None) };
        tune(&stream, timeout)?;
        stream.write_all(hello)?;
        Ok(Some(stream))
    })
}

pub fn answer(listener: &TcpListener, timeout: Duration, expected: &[u8]) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    poll(timeout, "the previous rank did not connect", || {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        tune(&stream, timeout)?;
        let mut hello = [0; 32];
        stream.read_exact(&mut hello)?;
        match () {
            () if hello == expected => Ok(Some(stream)),
            () if hello[..24] == expected[..24] => {
                Err(io::Error::other("this rank and the previous one were started with different flags; start all ranks with the same flags"))
            }
            // The connection is not from the expected rank.
            () => Ok(None),
        }
    })
}

fn poll<T>(timeout: Duration, late: &str, mut ask: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = ask()? {
            return Ok(value);
        }
        if started.elapsed() > timeout {
            return Err(io::Error::new(ErrorKind::TimedOut, format!("{late} within {}s", timeout.as_secs())));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn tune(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}
