//! Two cores exchange a frame over two links, without any I/O: `cargo run -p tabane-proto --example two_nodes`.

use std::net::SocketAddr;
use std::time::Duration;
use tabane_proto::{Bundle, Instant, LinkSettings, NodeId, Outcome, Settings};

/// The address of a node on a link.
fn place(node: u8, link: u8) -> SocketAddr {
    SocketAddr::from(([10, link, 0, node], 7420))
}

/// Everything that `sender` has to send now arrives at `receiver`.
fn pass(now: Instant, from: u8, sender: &mut Bundle, receiver: &mut Bundle) {
    let mut receive = |link, bytes: &[u8], segment| {
        let mut buffer = receiver.lend().expect("little waits");
        buffer[..bytes.len()].copy_from_slice(bytes);
        receiver.handle_datagrams(now, link, place(from, link), buffer, bytes.len(), segment);
    };
    sender.handle_timeout(now);
    while let Some(message) = sender.poll_control(now) {
        receive(message.link, message.bytes, message.bytes.len());
    }
    while let Some(batch) = sender.poll_batch(now) {
        let train = batch.slices().flatten().copied().collect::<Vec<_>>();
        println!("node {from} sends {} cells over link {}", train.len().div_ceil(batch.segment), batch.link);
        receive(batch.link, &train, batch.segment);
        sender.handle_sent(now, Outcome::Sent);
    }
}

fn main() {
    let (start, links) = (Instant::default(), vec![LinkSettings::new(1_452); 2]);
    let node = |number| NodeId::new([2, 0, 0, 0, 0, number], 7420);
    let [mut one, mut two] =
        [1, 2].map(|number| Bundle::new(start, Settings::new(node(number), number.into(), links.clone())));
    for millis in 0..60 {
        let now = start + Duration::from_millis(millis);
        pass(now, 1, &mut one, &mut two);
        pass(now, 2, &mut two, &mut one);
        if millis == 50 {
            // The virtio header, all zeros, then an Ethernet frame to everyone.
            let mut bytes = (0..3_000).map(|place| if (10..16).contains(&place) { 0xff } else { 0 });
            one.read_space().flatten().zip(&mut bytes).for_each(|(place, byte)| *place = byte);
            one.handle_frame(now, 3_000);
        }
        while let Some(frame) = two.poll_frame(now) {
            println!("node 2 delivers {} bytes", frame.slices().map(<[u8]>::len).sum::<usize>());
        }
    }
}
