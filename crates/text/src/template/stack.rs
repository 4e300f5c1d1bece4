//! A piece of work and a stack size go in, its result comes out, computed on a thread with that much stack; nothing
//! here is left running.
//!
//! The engine drops, compares and prints nested values by recursion without a limit. How deep they can be follows from
//! how much fuel it gets, so a stack in proportion holds them all. A stack is address space until it is used.

use crate::Error;

/// What anything needs beside the nesting, in bytes.
const BASE: usize = 1 << 20;

/// What the threads are called on which templates are rendered. A template can make the engine panic, as by a division
/// by zero of its own; that becomes an error, and a program's panic hook may pass over panics of these threads.
pub const TEMPLATE_THREAD: &str = "chat template";

/// Runs `work` with room for `bytes` of nesting.
pub(crate) fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(TEMPLATE_THREAD.to_owned()).stack_size(BASE + bytes);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Error::TemplateFailed {
            line: 0,
            reason: format!("no thread with {bytes} bytes of stack: {error}"),
        })?;
        thread.join().unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            Err(Error::TemplateFailed { line: 0, reason: format!("the template's engine gave up: {said}") })
        })
    })
}
