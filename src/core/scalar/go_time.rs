//! Points in time with their offset, and Go's way of describing their text by an example: `Mon Jan 02 15:04:05 -0700 2006`.
//!
//! The clock is not read here; "now" comes in as any other time does.

mod format;
mod layout;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};

use super::duration::Duration;

/// The layout of RFC 3339.
pub const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

/// A point in time, as the wall clock of a fixed offset from UTC shows it. Order and equality look at the instant alone.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    local: DateTime,
    /// Seconds east of UTC.
    offset: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    #[error("time `{text}` does not fit the layout `{layout}` at `{rest}`")]
    Mismatch { text: String, layout: String, rest: String },
    #[error("time `{text}` has a {what} out of range")]
    OutOfRange { text: String, what: &'static str },
    #[error("the time is outside the years 0 to 9999")]
    Overflow,
}

impl TimeError {
    /// The message without the text that was read, which may be the content of a Secret.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "the time does not fit its layout",
            Self::OutOfRange { .. } => "a part of the time is out of range",
            Self::Overflow => "the time is outside the years 0 to 9999",
        }
    }
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Seconds from year 1, the origin of truncation, to 1970.
const YEAR_ONE: i128 = -62_135_596_800;

impl Time {
    /// Reads a text by an example layout.
    pub fn parse(layout: &str, text: &str) -> Result<Self, TimeError> {
        parse::parse(layout, text)
    }

    /// Reads `2006-01-02T15:04:05Z07:00`, with a fraction of seconds if there is one.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimeError> {
        parse::parse(RFC3339, text)
    }

    pub fn from_unix(seconds: i64) -> Result<Self, TimeError> {
        Self::from_nanos(i128::from(seconds) * NANOS_PER_SECOND, 0)
    }

    /// From nanoseconds since 1970 and an offset in seconds east of UTC.
    pub fn from_nanos(nanos: i128, offset: i32) -> Result<Self, TimeError> {
        let local = nanos + i128::from(offset) * NANOS_PER_SECOND;
        let seconds = i64::try_from(local.div_euclid(NANOS_PER_SECOND)).map_err(|_| TimeError::Overflow)?;
        let rest = local.rem_euclid(NANOS_PER_SECOND) as i32;
        let local = EPOCH.checked_add(SignedDuration::new(seconds, rest)).map_err(|_| TimeError::Overflow)?;
        if local.year() < 0 {
            return Err(TimeError::Overflow);
        }
        Ok(Self { local, offset })
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(&self) -> i128 {
        self.local.duration_since(EPOCH).as_nanos() - i128::from(self.offset) * NANOS_PER_SECOND
    }

    /// Seconds since 1970, fraction dropped.
    pub fn as_unix(&self) -> i64 {
        self.as_nanos().div_euclid(NANOS_PER_SECOND) as i64
    }

    /// What the wall clock shows.
    pub fn local(&self) -> DateTime {
        self.local
    }

    /// Seconds east of UTC.
    pub fn offset(&self) -> i32 {
        self.offset
    }

    /// The same instant in UTC.
    pub fn utc(&self) -> Result<Self, TimeError> {
        Self::from_nanos(self.as_nanos(), 0)
    }

    /// The time between, at most what a duration can hold.
    pub fn since(&self, earlier: &Self) -> Duration {
        let nanos = self.as_nanos() - earlier.as_nanos();
        Duration::from_nanos(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    pub fn checked_add(&self, duration: Duration) -> Result<Self, TimeError> {
        Self::from_nanos(self.as_nanos() + i128::from(duration.as_nanos()), self.offset)
    }

    /// Rounds down to a multiple of the duration, counted from the start of year 1 in UTC. Unchanged unless it is positive.
    pub fn truncate(&self, duration: Duration) -> Result<Self, TimeError> {
        if duration <= Duration::ZERO {
            return Ok(*self);
        }
        let nanos = self.as_nanos();
        let since_year_one = nanos - YEAR_ONE * NANOS_PER_SECOND;
        Self::from_nanos(nanos - since_year_one % i128::from(duration.as_nanos()), self.offset)
    }

    /// `minute hour day month weekday` of the wall clock, Sunday being 0.
    pub fn to_cron(&self) -> String {
        let local = self.local;
        let weekday = local.weekday().to_sunday_zero_offset();
        format!("{} {} {} {} {weekday}", local.minute(), local.hour(), local.day(), local.month())
    }

    /// The text by an example layout.
    pub fn format(&self, layout: &str) -> String {
        format::format(layout, self)
    }

    fn from_parts(date: Date, time: jiff::civil::Time, offset: i32) -> Self {
        Self { local: date.to_datetime(time), offset }
    }
}

impl fmt::Display for Time {
    /// RFC 3339 without a fraction, `Z` for offset 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format(RFC3339))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.as_nanos() == other.as_nanos()
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_nanos().cmp(&other.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn time(text: &str) -> Time {
        Time::parse_rfc3339(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn duration(text: &str) -> Duration {
        text.parse().unwrap()
    }

    #[test]
    fn rfc3339_keeps_the_offset_and_drops_the_fraction() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(time(text).to_string(), expected);
        }
        check("2021-01-02T15:04:05-07:00", "2021-01-02T15:04:05-07:00");
        check("2021-01-02T15:04:05.999999999Z", "2021-01-02T15:04:05Z");
        check("2021-01-02T15:04:05+00:00", "2021-01-02T15:04:05Z");
        check("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z");
        check("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z");
        for bad in [
            "",
            "2021-01-02",
            "2021-13-02T15:04:05Z",
            "2021-02-30T15:04:05Z",
            "2021-01-02T24:00:00Z",
            "2021-01-02T15:04:05",
            "2021-01-02T15:04:05Zx",
        ] {
            assert!(Time::parse_rfc3339(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arithmetic() {
        let (start, end) = (time("2021-01-02T15:04:05-07:00"), time("2021-01-10T03:14:05-07:00"));
        assert_eq!(end.since(&start).to_string(), "180h10m0s");
        assert_eq!(start.checked_add(duration("3h")).unwrap().to_string(), "2021-01-02T18:04:05-07:00");
        assert_eq!(time("2023-02-02T15:04:05-07:00").utc().unwrap().to_string(), "2023-02-02T22:04:05Z");
        assert_eq!(time("2023-02-02T15:04:05Z").to_cron(), "4 15 2 2 4");
        assert_eq!(Time::from_unix(1702691171).unwrap().to_string(), "2023-12-16T01:46:11Z");
        assert_eq!(time("2023-12-16T01:46:11Z").as_unix(), 1702691171);
        assert_eq!(time("9999-12-31T23:59:59Z").checked_add(duration("1s")), Err(TimeError::Overflow));
        assert_eq!(time("0000-01-01T00:00:00Z").checked_add(duration("-1s")), Err(TimeError::Overflow));
        assert_eq!(time("9999-12-31T23:59:59-01:00").utc(), Err(TimeError::Overflow));
        assert_eq!(time("9999-12-31T23:59:59Z").since(&time("0001-01-01T00:00:00Z")), Duration::MAX);
        assert_eq!(Time::from_unix(i64::MAX), Err(TimeError::Overflow));
    }

    #[test]
    fn truncation_counts_from_year_one() {
        #[track_caller]
        fn check(text: &str, unit: &str, expected: &str) {
            assert_eq!(time(text).truncate(duration(unit)).unwrap().to_string(), expected);
        }
        check("2021-01-02T15:04:05Z", "1h", "2021-01-02T15:00:00Z");
        check("2021-01-02T15:04:05-07:30", "1h", "2021-01-02T14:30:00-07:30");
        // A week: day one of year one was a Monday.
        check("2021-01-02T15:04:05Z", "168h", "2020-12-28T00:00:00Z");
        check("2021-01-02T15:04:05Z", "-1h", "2021-01-02T15:04:05Z");
        check("2021-01-02T15:04:05Z", "0s", "2021-01-02T15:04:05Z");
    }

    #[test]
    fn order_is_by_instant() {
        assert_eq!(time("2021-01-02T15:04:05-07:00"), time("2021-01-02T22:04:05Z"));
        assert!(time("2021-01-02T15:04:05-07:00") > time("2021-01-02T15:04:05Z"));
    }

    proptest! {
        #[test]
        fn printed_times_read_back(seconds in -62_000_000_000_i64..250_000_000_000, minutes in -720_i32..720) {
            let value = Time::from_nanos(i128::from(seconds) * NANOS_PER_SECOND, minutes * 60).unwrap();
            let back = time(&value.to_string());
            prop_assert_eq!((back, back.offset()), (value, value.offset()));
        }
    }
}
