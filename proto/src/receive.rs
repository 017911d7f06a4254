//! The way of a cell from the links to the device.

pub(crate) mod deliver;
pub(crate) mod pool;
pub(crate) mod reassemble;
pub(crate) mod relief;
pub(crate) mod reorder;
pub(crate) mod reorder_timeout;
