//! What has to hold in simulated worlds. `-- --nocapture` shows the figures.

mod bridge;
mod ceiling;
mod hostile;
mod loss;
mod mesh;
mod overload;
mod path_mtu;
mod router;
mod scenarios;
mod sleep;
mod swarm;
mod trials;
