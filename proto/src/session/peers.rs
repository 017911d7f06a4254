//! What a room keeps of each peer, by the peer's index.
//!
//! Indices are small and given again, so a list serves as the map.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A `T` of each peer that has one.
pub(crate) struct ByPeer<T>(Vec<Option<Box<T>>>);

impl<T> Default for ByPeer<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByPeer<T> {
    pub(crate) fn get(&self, index: u16) -> Option<&T> {
        self.0.get(usize::from(index))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut T> {
        self.0.get_mut(usize::from(index))?.as_deref_mut()
    }

    /// A peer has this from now on, in place of what it had.
    pub(crate) fn insert(&mut self, index: u16, value: T) {
        let place = usize::from(index);
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(Box::new(value));
    }

    /// What a peer has, which begins now if it had nothing.
    pub(crate) fn of(&mut self, index: u16) -> &mut T
    where
        T: Default,
    {
        if self.get(index).is_none() {
            self.insert(index, T::default());
        }
        &mut self[index]
    }

    pub(crate) fn remove(&mut self, index: u16) -> Option<Box<T>> {
        self.0.get_mut(usize::from(index))?.take()
    }

    /// All indices that peers have, and some that none has.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + use<T> {
        (0..).take(self.0.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        (0..).zip(&self.0).filter_map(|(index, value)| Some((index, value.as_deref()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().map(Box::as_ref)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten().map(Box::as_mut)
    }
}

impl<T> Index<u16> for ByPeer<T> {
    type Output = T;

    fn index(&self, index: u16) -> &T {
        self.get(index).expect("the peer has one")
    }
}

impl<T> IndexMut<u16> for ByPeer<T> {
    fn index_mut(&mut self, index: u16) -> &mut T {
        self.get_mut(index).expect("the peer has one")
    }
}
