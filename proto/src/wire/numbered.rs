//! What is kept of each link, or of each lane, by its number.

use core::ops::{Deref, DerefMut, Index, IndexMut};

/// A list, or an array, into which the numbers of links or lanes lead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbered<S>(pub(crate) S);

impl<S: Index<usize>> Index<u8> for Numbered<S> {
    type Output = S::Output;

    fn index(&self, number: u8) -> &S::Output {
        &self.0[usize::from(number)]
    }
}

impl<S: IndexMut<usize>> IndexMut<u8> for Numbered<S> {
    fn index_mut(&mut self, number: u8) -> &mut S::Output {
        &mut self.0[usize::from(number)]
    }
}

impl<S> Deref for Numbered<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> DerefMut for Numbered<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0
    }
}
