//! An append-only ledger that requires only create-if-absent.
//!
//! ```text
//! ledger/{run}/{seq, 10 digits}.json     one record each, created once, never rewritten
//! open/{run}                             a hint for the periodic pass; can be rebuilt
//! parked/{date}/{event}-{digest}.event   unreadable events
//! ```
//!
//! A record is created under the next number or not at all; a writer that loses the race reloads and decides again. The store
//! may report a conflict, or an error, for a write that succeeded: every record has a nonce, and reading it back
//! distinguishes the caller's write from a concurrent one. The order of listings is never used.

#![deny(missing_docs)]

mod artefacts;
pub mod conformance;
mod digest;
mod folder;
mod memory;
mod observed;
mod record_cache;
mod records;
mod split;
mod store;

pub use artefacts::{ArtefactError, Artefacts, ArtifactOwner, Committed};
pub use digest::{Digest, Digester};
pub use folder::FolderStore;
pub use memory::MemoryStore;
pub use observed::{ObservedStore, OnRequest, RequestKind, StoreRequest};
pub use records::{AppendError, Ledger, LedgerError, LedgerSnapshot, Nonces};
pub use split::Split;
pub use store::{Creation, ObjectReader, Store, StoreError, check_name};
