//! How values stand in a scenario file: quantities with their units, names, and numbers that count from 1. Each is
//! a [`Form`], which serde's `with` takes.
//!
//! A bare number is no quantity: nobody can tell 5 ms from 5 s by it. What is refused says `WHAT; allowed: …`, and
//! [`super::file`] adds where it stands. Rates are written as in the daemon's configuration.

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use tabane_config::problem::quoted;
use tabane_config::units::{BITRATE_ALLOWED, parse_bitrate, print_bitrate, print_exactly, quantity};
use tabane_engine::receive::Method;
use tabane_proto::{HashLayers, PolicyKind, Turn};

/// Units with their factors, largest first: nanoseconds, millionths, bytes.
const TIMES: [(&str, u64); 5] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const SHARES: [(&str, u64); 2] = [("%", 10_000), ("ppm", 1)];
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
const TIME_MAX_NS: u64 = 3_600_000_000_000;
const SHARE_MAX: u64 = 1_000_000;
const SIZE_MAX: u64 = 16 << 30;

pub(super) trait Form {
    type Value;

    fn serialize<S: Serializer>(value: &Self::Value, to: S) -> Result<S::Ok, S::Error>;

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Self::Value, D::Error>;
}

/// A form that is text, which reads back as it is printed.
pub(super) trait Text {
    type Value: Copy;

    const ALLOWED: &'static str;

    fn parse(text: &str) -> Result<Self::Value, String>;

    fn print(value: Self::Value) -> String;
}

impl<T: Text> Form for T {
    type Value = T::Value;

    fn serialize<S: Serializer>(value: &T::Value, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&T::print(*value))
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<T::Value, D::Error> {
        T::parse(&String::deserialize(from)?).map_err(|what| refused(what, T::ALLOWED))
    }
}

/// Makes a [`Text`] of how a value is read and printed, and what is allowed.
macro_rules! text {
    ($form:ty, $value:ty, $parse:expr, $print:expr, $allowed:expr) => {
        impl Text for $form {
            type Value = $value;
            const ALLOWED: &'static str = $allowed;

            fn parse(text: &str) -> Result<$value, String> {
                $parse(text)
            }

            fn print(value: $value) -> String {
                $print(value)
            }
        }
    };
}

pub(super) struct Time;

text!(
    Time,
    Duration,
    |text| quantity(text, &TIMES, "nanoseconds", 0..=TIME_MAX_NS).map(Duration::from_nanos),
    |time: Duration| print_exactly(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), &TIMES),
    "a number and one of ns, us, ms, s, min, up to 60 min, such as \"1.5 ms\""
);

/// Bits per second.
pub(super) struct Rate;

text!(Rate, u64, parse_bitrate, print_bitrate, BITRATE_ALLOWED);

/// Bytes.
pub(super) struct Size;

text!(
    Size,
    u64,
    |text| quantity(text, &SIZES, "bytes", 1..=SIZE_MAX),
    |bytes| print_exactly(bytes, &SIZES),
    "a number and one of B, kB, KiB, MB, MiB, GB, GiB, from 1 B to 16 GiB, such as \"64 MiB\""
);

/// A share, to the millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    pub(super) per_million: u32,
}

impl Share {
    pub(super) fn of_one(self) -> f64 {
        f64::from(self.per_million) / 1e6
    }

    fn parse(text: &str) -> Result<Share, String> {
        let per_million = quantity(text, &SHARES, "ppm", 0..=SHARE_MAX)?;
        Ok(Share { per_million: u32::try_from(per_million).map_err(|error| error.to_string())? })
    }
}

text!(
    Share,
    Share,
    Share::parse,
    |share: Share| print_exactly(share.per_million.into(), &SHARES),
    "a number and one of ppm, %, up to 100 %, such as \"0.5 %\"; no finer than 1 ppm"
);

text!(
    Turn,
    Turn,
    |text: &str| text.parse().map_err(|_| format!("{} is out of range", quoted(text))),
    |turn: Turn| turn.to_string(),
    Turn::ALLOWED
);

pub(super) fn by_name<'de, T: Copy, D: Deserializer<'de>>(
    from: D,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| refused(format!("{} is unknown", quoted(&text)), names()))
}

/// Makes a [`Form`] of how all values of a type are listed, and called.
macro_rules! named {
    ($form:ty, $all:expr, $name:expr) => {
        impl $crate::scenario::units::Form for $form {
            type Value = $form;

            fn serialize<S: serde::Serializer>(value: &$form, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str($name(*value))
            }

            fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$form, D::Error> {
                $crate::scenario::units::by_name(from, &$all, $name)
            }
        }
    };
}
pub(super) use named;

named!(HashLayers, HashLayers::ALL, HashLayers::name);
named!(Method, Method::ALL, Method::name);
named!(PolicyKind, PolicyKind::ALL, PolicyKind::name);

/// What counts from 1 in files, and from 0 here.
pub(super) struct FromOne<T>(PhantomData<T>);

impl<T: Copy + TryFrom<i64> + TryInto<i64>> Form for FromOne<T> {
    type Value = T;

    fn serialize<S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64((*value).try_into().unwrap_or(0) + 1)
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let number = i64::deserialize(from)?;
        let counted = number.checked_sub(1).and_then(|number| T::try_from(number).ok());
        counted.ok_or_else(|| refused(format!("{number} is out of range"), "from 1 on"))
    }
}

pub(super) struct IfGiven<F>(PhantomData<F>);

impl<F: Form> Form for IfGiven<F> {
    type Value = Option<F::Value>;

    fn serialize<S: Serializer>(value: &Option<F::Value>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => F::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<F::Value>, D::Error> {
        F::deserialize(from).map(Some)
    }
}

fn refused<E: Error>(what: impl Display, allowed: impl Display) -> E {
    E::custom(format!("{what}; allowed: {allowed}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_people_write() {
        assert_eq!(Time::parse("1.5 ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(Time::parse("0s"), Ok(Duration::ZERO));
        assert_eq!(Share::parse("0.5 %"), Ok(Share { per_million: 5_000 }));
        assert_eq!(Share::parse("100%"), Ok(Share { per_million: 1_000_000 }));
        assert_eq!(Size::parse("16 MiB"), Ok(16 << 20));
    }

    #[test]
    fn what_is_refused_and_why() {
        assert_eq!(Time::parse("5"), Err("`5` has no unit".into()));
        assert_eq!(Time::parse("5 sec"), Err("unknown unit `sec`".into()));
        assert_eq!(Time::parse("61 min"), Err("`61 min` is out of range".into()));
        assert_eq!(Share::parse("0.00001 %"), Err("`0.00001 %` is not a whole number of ppm".into()));
        assert_eq!(Share::parse("101 %"), Err("`101 %` is out of range".into()));
        assert_eq!(Size::parse("0 B"), Err("`0 B` is out of range".into()));
        assert_eq!(Size::parse("-1 B"), Err("unknown unit `-1 B`".into()));
    }

    proptest! {
        #[test]
        fn printed_quantities_read_back(time in 0..=TIME_MAX_NS, share in 0..=1_000_000_u32, size in 1..=SIZE_MAX) {
            let (time, share) = (Duration::from_nanos(time), Share { per_million: share });
            prop_assert_eq!(Time::parse(&Time::print(time)), Ok(time));
            prop_assert_eq!(Share::parse(&Share::print(share)), Ok(share));
            prop_assert_eq!(Size::parse(&Size::print(size)), Ok(size));
        }
    }
}
