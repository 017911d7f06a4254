//! The table under storms of addresses, over long times, and under several workers at once.

use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::vec::Vec;

const SEED: u64 = 1;

fn mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// A table of the size that a bundle has.
fn table() -> Fdb {
    Fdb::new(ADDRESSES, SEED)
}

fn number_of(fdb: &Fdb, second: u32, mac: Mac) -> Option<u16> {
    fdb.look_up(second, mac).map(|found| found.number)
}

fn words(fdb: &Fdb) -> Vec<u64> {
    fdb.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

/// So many addresses of one set.
fn neighbours(fdb: &Fdb, count: usize) -> Vec<Mac> {
    let set = fdb.hash.place(mac(0)).0;
    (0..).map(mac).filter(|mac| fdb.hash.place(*mac).0 == set).take(count).collect()
}

#[test]
fn an_address_moves_and_ages() {
    let fdb = table();
    fdb.learn(10, mac(1), 1);
    fdb.learn(10, mac(1), 2);
    assert_eq!(fdb.look_up(10 + AGE - 1, mac(1)), Some(Found { number: 2, learned: 10 }));
    assert_eq!(fdb.look_up(10 + AGE, mac(1)), None, "a look-up alone keeps no address");
    fdb.learn(10 + AGE, mac(1), 3);
    assert_eq!(fdb.look_up(10 + AGE, mac(1)), Some(Found { number: 3, learned: 10 + AGE }));
    assert_eq!(fdb.look_up(10, mac(2)), None);
}

#[test]
fn as_many_addresses_fit_as_the_table_is_made_for() {
    let fdb = table();
    assert_eq!(fdb.words.len() * size_of::<AtomicU64>(), 4 << 20, "4 MiB");
    let many = u32::try_from(ADDRESSES).unwrap();
    (0..many).for_each(|number| _ = fdb.learn(0, mac(number), 1));
    let known = (0..many).filter(|number| number_of(&fdb, 1, mac(*number)) == Some(1)).count();
    assert_eq!(known, ADDRESSES);
}

#[test]
fn learning_changes_one_place_however_full_the_table_is() {
    let fdb = Fdb::new(0, SEED);
    (0..400_000).for_each(|number| _ = fdb.learn(0, mac(number), 1));
    assert_eq!(fdb.entries(), fdb.words.len(), "it is full");
    for number in 400_000..400_100 {
        let before = words(&fdb);
        fdb.learn(1, mac(number), 1);
        let after = words(&fdb);
        let changed = (0..after.len()).filter(|place| before[*place] != after[*place]);
        let changed: Vec<_> = changed.map(|place| place / WAYS).collect();
        assert_eq!(changed, [fdb.hash.place(mac(number)).0], "one place of its own set");
    }
}

/// 100,000 new addresses a second for 20 s. Of the addresses in use, some send frames, others only get some, all once in 2 s.
#[test]
fn a_storm_pushes_out_nothing_that_is_in_use() {
    for sightings in [1, 2] {
        let fdb = table();
        let (received, asked) = (0..500, 500..1_000);
        (0..1_000).for_each(|number| _ = fdb.learn(0, mac(number), 1));
        let mut next = 1_000_000;
        for second in 0..20 {
            if second % 2 == 0 {
                received.clone().for_each(|number| _ = fdb.learn(second, mac(number), 1));
                for number in asked.clone() {
                    assert_eq!(number_of(&fdb, second, mac(number)), Some(1), "{number} at {second}");
                }
            }
            fdb.sweep(second);
            for number in next..next + 100_000 {
                fdb.learn(second, mac(number), 2);
                if sightings == 2 && second > 0 {
                    // Each address comes again a second later, as if it were in use.
                    fdb.learn(second, mac(number - 100_000), 2);
                }
            }
            next += 100_000;
        }
        let known = received.filter(|number| number_of(&fdb, 19, mac(*number)) == Some(1)).count();
        assert_eq!(known, 500, "seen {sightings} times");
    }
}

#[test]
fn a_newcomer_takes_the_place_of_whoever_was_seen_once_then_of_the_least_recently_used() {
    let fdb = Fdb::new(0, SEED);
    let macs = neighbours(&fdb, WAYS + 4);
    for mac in &macs[..WAYS] {
        fdb.learn(0, *mac, 1);
    }
    // All but the fourth are in use; the third for the shortest time.
    for (place, mac) in macs[..WAYS].iter().enumerate().filter(|(place, _)| *place != 3) {
        fdb.learn(if place == 2 { 5 } else { 6 }, *mac, 1);
    }
    fdb.learn(7, macs[WAYS], 1);
    assert_eq!(number_of(&fdb, 7, macs[3]), None, "it was seen once");
    assert_eq!(number_of(&fdb, 7, macs[WAYS]), Some(1));
    fdb.learn(7, macs[WAYS + 1], 1);
    assert_eq!(number_of(&fdb, 7, macs[2]), None, "it was idle for the longest time");
    // The others were used in the last two seconds.
    assert_eq!(number_of(&fdb, 7, macs[WAYS + 1]), Some(1));
    fdb.learn(7, macs[WAYS + 2], 1);
    assert_eq!(number_of(&fdb, 7, macs[WAYS + 2]), None, "all are in use");
    assert!(macs[4..WAYS].iter().all(|mac| number_of(&fdb, 7, *mac) == Some(1)));
}

#[test]
fn what_is_too_old_does_not_come_back_when_times_come_round() {
    let fdb = Fdb::new(0, SEED);
    fdb.sweep(0);
    fdb.learn(1, mac(1), 1);
    for tenth in 10..6_000 {
        fdb.sweep(tenth / 10);
        let known = number_of(&fdb, tenth / 10, mac(1));
        assert_eq!(known.is_some(), tenth / 10 < 1 + AGE, "second {}", tenth / 10);
    }
    assert_eq!(fdb.entries(), 0);
}

#[test]
fn after_a_standstill_nothing_is_believed() {
    let fdb = Fdb::new(0, SEED);
    (0..20).for_each(|tenth| fdb.sweep(1 + tenth / 10));
    fdb.learn(2, mac(1), 1);
    fdb.sweep(2 + 512);
    assert_eq!(number_of(&fdb, 2 + 512, mac(1)), None);
}

#[test]
fn a_use_long_ago_protects_nothing() {
    let fdb = Fdb::new(0, SEED);
    let macs = neighbours(&fdb, WAYS + 1);
    macs[..WAYS].iter().for_each(|mac| _ = fdb.learn(0, *mac, 1));
    assert_eq!(number_of(&fdb, 0, macs[0]), Some(1));
    (10..1_300).for_each(|tenth| fdb.sweep(tenth / 10));
    macs[1..WAYS].iter().for_each(|mac| _ = fdb.learn(128, *mac, 1));
    // The short number of second 0 is that of second 128.
    fdb.learn(129, macs[WAYS], 1);
    assert_eq!(number_of(&fdb, 129, macs[0]), None);
}

#[test]
fn two_places_of_one_address_become_one() {
    let fdb = Fdb::new(0, SEED);
    fdb.learn(1, mac(1), 1);
    // Another worker put it into the last place of the set at the same moment.
    let (set, tag) = fdb.place(mac(1));
    set[WAYS - 1].store(Entry::new(tag, 2, 1).to_word(), Ordering::Relaxed);
    fdb.learn(2, mac(1), 1);
    assert_eq!(fdb.entries(), 1);
}

/// Four workers at once: each look-up finds what one of them has learned.
#[test]
fn no_worker_sees_half_of_a_change() {
    const MACS: u32 = 60_000;
    let fdb = Fdb::new(0, SEED);
    let ended = AtomicBool::new(false);
    // Behind either of two numbers, which no other address in its set shares.
    let numbers =
        |address: u32| [1 + address % 1_000, 1_001 + address % 1_000].map(|it| u16::try_from(it).unwrap());
    thread::scope(|scope| {
        for worker in 0..2 {
            let (fdb, ended) = (&fdb, &ended);
            scope.spawn(move || {
                for round in 0..20 {
                    for address in 0..MACS {
                        fdb.learn(round, mac(address), numbers(address)[worker]);
                    }
                    fdb.sweep(round);
                }
                ended.store(true, Ordering::Release);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    for address in 0..MACS {
                        let number = number_of(&fdb, 19, mac(address));
                        assert!(number.is_none_or(|number| numbers(address).contains(&number)), "{number:?}");
                    }
                }
            });
        }
    });
    let known = (0..MACS).filter(|address| number_of(&fdb, 19, mac(*address)).is_some()).count();
    assert!(known > 50_000, "{known}");
}
