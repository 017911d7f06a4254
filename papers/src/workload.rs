//! What runs through a path in these measurements, and nowhere else.

pub mod bonnie;
pub mod nfs;
pub mod npb;
pub mod ranks;
pub mod returned;
