//! Results of the providers' calls, as their callers receive them.

use model::{Class, Failure, failpoint_is_active};
use service::PortError;

use crate::effect::EffectResult;

/// Part of the providers' error messages. It must never be stored.
pub const SECRET: &str = "token-7f3a9c-of-the-provider";

/// A transient error.
pub(super) fn transient<T>(why: &str) -> Result<T, PortError> {
    Err(PortError::Transient(format!("{why} ({SECRET})")))
}

/// The result of a call as its caller receives it: lost and refused calls are transient errors.
pub(super) fn answered<T>(answer: EffectResult<Result<T, PortError>>) -> Result<T, PortError> {
    match answer {
        EffectResult::Done(Err(PortError::Transient(why))) if failpoint_is_active("secret_in_a_failure") => {
            Err(PortError::Permanent(Failure::new(Class::Infrastructure, "ERROR", why)))
        }
        EffectResult::Done(result) => result,
        EffectResult::Lost(_) => transient("the connection was reset"),
        EffectResult::Refused => transient("503, try again"),
    }
}
