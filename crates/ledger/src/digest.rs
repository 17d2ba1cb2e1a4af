//! Size and checksums of streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

/// Size and checksums of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Size of the content, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// CRC32C, 8 hex digits.
    pub crc32c: String,
}

impl Digest {
    /// Digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sums = Sums::default();
        sums.update(bytes);
        sums.finish()
    }
}

#[derive(Default)]
struct Sums {
    size: u64,
    sha256: Sha256,
    crc32c: u32,
}

impl Sums {
    fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.sha256.update(bytes);
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }

    fn finish(self) -> Digest {
        let sha256 = hex::encode(self.sha256.finalize());
        Digest { size_bytes: self.size, sha256, crc32c: format!("{:08x}", self.crc32c) }
    }
}

/// Computes the digest of all bytes read through it.
pub struct Digester<R> {
    inner: R,
    sums: Sums,
}

impl<R> Digester<R> {
    /// A digester of all bytes that are read from `inner` through it.
    pub fn new(inner: R) -> Self {
        Self { inner, sums: Sums::default() }
    }

    /// Digest of all bytes read.
    pub fn finish(self) -> Digest {
        self.sums.finish()
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Digester<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = poll {
            let Self { sums, .. } = &mut *self;
            sums.update(&buffer.filled()[before..]);
        }
        poll
    }
}
