//! Connections that can be cut from inside a handler.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// A handler's access to its connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionControl(Arc<AtomicBool>);

impl ConnectionControl {
    /// Stops all output: the connection ends for callers that wait for a response.
    pub fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for ConnectionControl {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        stream.io().control.clone()
    }
}

/// A listener whose connections can be cut.
pub struct CuttableListener(pub TcpListener);

impl Listener for CuttableListener {
    type Io = Io;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Io { stream, control: ConnectionControl::default() }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// A connection whose output a handler can stop.
pub struct Io {
    stream: TcpStream,
    control: ConnectionControl,
}

impl Io {
    fn whole(&self) -> io::Result<()> {
        if self.control.0.load(Ordering::Relaxed) { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
