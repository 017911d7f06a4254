//! Links over one real file, in one process.

use std::time::Duration;

use tabane_shm_ring::MESSAGE_MAX;

use super::*;

fn spec(path: PathBuf, slot: Option<u16>) -> MemSpec {
    let shape = Shape::new(512, 128 << 10, 3, 1).expect("allowed");
    MemSpec { path, shape, channel: 0, slot, port: 7420, poll: Duration::from_micros(32) }
}

/// A file that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tabane-mem-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pair(scratch: &Scratch) -> [MemLink; 2] {
    let mut links = [0, 1].map(|_| MemLink::open(&spec(scratch.0.clone(), None)).expect("opened"));
    meet(&mut links, Duration::ZERO);
    links
}

fn meet(links: &mut [MemLink; 2], from: Duration) {
    for tick in 1..=3 {
        links
            .iter_mut()
            .for_each(|link| assert_eq!(link.service(from + Duration::from_millis(10 * tick)), None));
        links.iter_mut().for_each(|link| assert_eq!(receive(link), None));
    }
    assert!(links.iter().all(MemLink::has_carrier));
}

fn receive(link: &mut MemLink) -> Option<(Vec<u8>, usize, SocketAddr)> {
    let mut bytes = vec![0; 1 << 16];
    let mut buffers = [ReceiveBuffer::new(&mut bytes)];
    let came = link.receive(&mut buffers).expect("no kernel is asked");
    let [buffer] = buffers;
    (came == 1).then(|| (buffer.bytes[..buffer.len].to_vec(), buffer.segment, buffer.from))
}

#[test]
fn runs_of_any_length_arrive_as_they_were() {
    let scratch = Scratch::new("runs");
    let [mut one, mut two] = pair(&scratch);
    for length in (1..200).chain([1_451, 4_096, 65_507, MESSAGE_MAX]) {
        let bytes: Vec<u8> = (0..length).map(|index| (index * 7 + length).to_le_bytes()[0]).collect();
        let (head, tail) = bytes.split_at(length / 3);
        let segment = length.div_ceil(40);
        let sent = one.send(&two.local_addr(), &[IoSlice::new(head), IoSlice::new(tail)], segment);
        assert!(matches!(sent, Sent::Done), "{length}: {sent:?}");
        assert_eq!(receive(&mut two), Some((bytes, segment, one.local_addr())));
    }
    assert_eq!(one.queued_bytes(), 0);
}

#[test]
fn what_goes_to_everyone_arrives_everywhere_else() {
    let scratch = Scratch::new("everyone");
    let [mut one, mut two] = pair(&scratch);
    let group = "[ff12::1]:7420".parse().expect("an address");
    assert!(matches!(two.send(&group, &[IoSlice::new(b"hello")], 5), Sent::Done));
    assert_eq!(receive(&mut one), Some((b"hello".to_vec(), 5, two.local_addr())));
    assert_eq!(receive(&mut two), None);
    let nobody = "[100::7461:6261:0:2]:7420".parse().expect("an address");
    assert!(matches!(two.send(&nobody, &[IoSlice::new(b"hello")], 5), Sent::Lost(_)));
}

#[test]
fn a_slot_has_one_process_and_is_free_after_it() {
    let scratch = Scratch::new("slots");
    let [one, mut two] = pair(&scratch);
    assert_eq!([&one, &two].map(|link| link.slot), [0, 1]);
    let again = MemLink::open(&spec(scratch.0.clone(), Some(0))).map(drop);
    assert!(matches!(again, Err(MemError::Taken { .. })), "{again:?}");
    let third = MemLink::open(&spec(scratch.0.clone(), None)).expect("there are three");
    assert_eq!(third.slot, 2);
    drop(one);
    assert_eq!(two.service(Duration::from_millis(40)), None);
    assert!(!two.has_carrier(), "who leaves says so");
    let mut links = [MemLink::open(&spec(scratch.0.clone(), Some(0))).expect("free"), two];
    meet(&mut links, Duration::from_millis(50));
}

#[test]
fn a_seat_that_is_handed_over_is_not_left() {
    let scratch = Scratch::new("handed");
    let [mut one, two] = pair(&scratch);
    let file = one.file.try_clone().expect("a descriptor");
    let taker = MemLink::adopt(file, &spec(scratch.0.clone(), None)).expect("the same open file");
    assert_eq!(taker.slot, one.slot);
    assert!(one.has_carrier(), "the taker has not taken the seat yet");
    one.hand_over();
    drop(one);
    let mut links = [taker, two];
    meet(&mut links, Duration::from_millis(30));
}

#[test]
fn a_memfd_cannot_be_shortened_once_it_is_mapped() {
    use rustix::fs::{self, MemfdFlags};
    let memory =
        fs::memfd_create("window", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory)));
    let _link = MemLink::open(&spec(path, None)).expect("opened");
    assert_eq!(fs::ftruncate(&memory, 0), Err(rustix::io::Errno::PERM));
}

#[test]
fn memory_that_is_no_such_window_is_refused() {
    let scratch = Scratch::new("refused");
    let wanted = spec(scratch.0.clone(), None);
    let open = |wanted: &MemSpec| MemLink::open(wanted).map(drop);
    std::fs::write(&scratch.0, [0; 1000]).expect("written");
    assert!(matches!(open(&wanted), Err(MemError::Failed(Failure { step: "making room", .. }))));
    std::fs::write(&scratch.0, vec![7; 1 << 20]).expect("written");
    assert!(matches!(open(&wanted), Err(MemError::Shape { source: ShapeError::NotAWindow, .. })));
    std::fs::remove_file(&scratch.0).expect("removed");
    open(&wanted).expect("made");
    let shape = Shape::new(1024, 128 << 10, 3, 1).expect("allowed");
    let other = open(&MemSpec { shape, ..wanted });
    assert!(other.is_err_and(|error| error.to_string().contains("units of 512 B")));
}

#[test]
fn addresses_and_slots_belong_together() {
    let address = address_of(255, 7420);
    assert_eq!(address.to_string(), "[100::7461:6261:0:ff]:7420");
    assert_eq!(slot_of(&address), Some(255));
    for other in ["[100::1]:7420", "192.0.2.1:1", "[fe80::7461:6261:0:1]:7420"] {
        assert_eq!(slot_of(&other.parse().expect("an address")), None);
    }
}
