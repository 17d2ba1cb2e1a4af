//! An append-only ledger on nothing but create-if-absent.
//!
//! ```text
//! ledger/{run}/{seq, 10 digits}.json     one record each, created once, never rewritten
//! open/{run}                             a hint for the tick; rebuildable
//! parked/{date}/{event}-{digest}.event   what could not be read
//! ```
//!
//! A record is created under the next number or not at all; whoever loses that race loads again and decides again. The
//! store may report a conflict, or an error, for a write that landed: every record carries a nonce, and reading it back
//! tells our own write from a rival's. Listing order is never used.

mod artefacts;
pub mod conformance;
mod digest;
mod folder;
mod memory;
mod records;
mod split;
mod store;

pub use artefacts::{ArtefactError, Artefacts, Committed, Owner};
pub use digest::{Digest, Digester};
pub use folder::FolderStore;
pub use memory::MemoryStore;
pub use records::{AppendError, Ledger, LedgerError, Loaded, Nonces};
pub use split::Split;
pub use store::{Creation, Reader, Store, StoreError, check_name};
