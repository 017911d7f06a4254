//! What runs through a path in these measurements, and nowhere else.

pub mod bonnie;
pub mod exchange;
pub mod nfs;
pub mod ranks;
pub mod returned;
