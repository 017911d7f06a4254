//! What the rings need of shared memory.

/// Memory that others write at the same time, by offsets from its beginning.
///
/// An implementation checks every offset and panics when one lies outside: offsets come from this crate's own
/// arithmetic, never from the memory.
pub trait Memory {
    /// The word at `at`, a multiple of 8. What was written before it was stored is seen by whoever has loaded it
    /// (acquire).
    fn load(&self, at: usize) -> u64;

    /// Stores a word at `at`, a multiple of 8, after all that was read and written before (release).
    fn store(&self, at: usize, word: u64);

    /// Copies out what lies from `at` on, a multiple of 8. Others may write meanwhile; then the bytes are any.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Copies `bytes` in from `at` on.
    fn write(&self, at: usize, bytes: &[u8]);
}
