//! Durations and timestamps: read as Go and protobuf write them, written as protobuf does.

use jiff::Timestamp;

const SECOND: i128 = 1_000_000_000;
/// Ten thousand years: the longest duration of protobuf.
const LONGEST: i128 = 315_576_000_000 * SECOND;

/// Nanoseconds of `5s`, `1m30s`, `-1.5h`, `0`. A unit is needed except after a lone zero.
pub(super) fn read_duration(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_i128;
    loop {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, after) = unit(after)?;
        if !whole.is_empty() {
            total += i128::from(whole.parse::<i64>().ok()?) * unit;
        }
        // What is finer than a nanosecond is cut off, and nineteen digits are finer than any.
        let fraction = &fraction[..fraction.len().min(19)];
        if !fraction.is_empty() {
            total += fraction.parse::<i128>().ok()? * unit / 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        }
        if total > LONGEST {
            return None;
        }
        if after.is_empty() {
            return Some(if negative { -total } else { total });
        }
        rest = after;
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn unit(text: &str) -> Option<(i128, &str)> {
    const UNITS: &[(&str, i128)] = &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("m", 60 * SECOND),
        ("h", 3600 * SECOND),
    ];
    UNITS.iter().find_map(|(name, nanos)| Some((*nanos, text.strip_prefix(name)?)))
}

/// Seconds with 0, 3, 6 or 9 digits: `1.500s`.
pub(super) fn write_duration(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (whole, rest) = (nanos / SECOND.unsigned_abs(), nanos % SECOND.unsigned_abs());
    format!("{sign}{whole}{}s", fraction(rest))
}

/// RFC 3339 in UTC with 0, 3, 6 or 9 digits, from RFC 3339 with any offset.
pub(super) fn normalise_timestamp(text: &str) -> Option<String> {
    // The first of year one; the last year is 9999 for both.
    const EARLIEST: i128 = -62_135_596_800 * SECOND;
    let shape = text.len() >= 20 && text.as_bytes()[10].eq_ignore_ascii_case(&b'T');
    let moment = shape.then(|| text.parse::<Timestamp>().ok()).flatten()?;
    if moment.as_nanosecond() < EARLIEST {
        return None;
    }
    let nanos = moment.as_nanosecond().rem_euclid(SECOND).unsigned_abs();
    Some(format!("{}{}Z", moment.strftime("%Y-%m-%dT%H:%M:%S"), fraction(nanos)))
}

fn fraction(nanos: u128) -> String {
    match nanos {
        0 => String::new(),
        _ if nanos.is_multiple_of(1_000_000) => format!(".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_duration(text: &str, expected: Option<&str>) {
        assert_eq!(read_duration(text).map(write_duration).as_deref(), expected, "{text}");
    }

    #[test]
    fn durations_of_go_and_of_protobuf() {
        check_duration("5s", Some("5s"));
        check_duration("100ms", Some("0.100s"));
        check_duration("1m30s", Some("90s"));
        check_duration("1.5h", Some("5400s"));
        check_duration("-1.5s", Some("-1.500s"));
        check_duration("+.5s", Some("0.500s"));
        check_duration("1.s", Some("1s"));
        check_duration("15us", Some("0.000015s"));
        check_duration("15µs", Some("0.000015s"));
        check_duration("15μs", Some("0.000015s"));
        check_duration("7ns", Some("0.000000007s"));
        check_duration("0", Some("0s"));
        check_duration("-0", Some("0s"));
        check_duration("0s", Some("0s"));
        check_duration("0.0000000019s", Some("0.000000001s"));
        check_duration(&format!("0.{}s", "3".repeat(400)), Some("0.333333333s"));
        check_duration("315576000000s", Some("315576000000s"));
    }

    #[test]
    fn what_is_no_duration() {
        for text in [
            "",
            "5",
            "s",
            "-",
            ".s",
            "1d",
            "1S",
            "1e3s",
            " 5s",
            "5s ",
            "1s-1s",
            "315576000001s",
            "99999999999999999999h",
        ] {
            check_duration(text, None);
        }
    }

    #[track_caller]
    fn check_timestamp(text: &str, expected: Option<&str>) {
        assert_eq!(normalise_timestamp(text).as_deref(), expected, "{text}");
    }

    #[test]
    fn timestamps_are_told_in_utc() {
        check_timestamp("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z"));
        check_timestamp("2026-01-02T03:04:05.5+02:00", Some("2026-01-02T01:04:05.500Z"));
        check_timestamp("1969-12-31T23:59:59.999999Z", Some("1969-12-31T23:59:59.999999Z"));
        check_timestamp("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z"));
        check_timestamp("0000-12-31T23:59:59.5Z", None);
        check_timestamp("2026-01-02", None);
        check_timestamp("yesterday, at about noon", None);
        check_timestamp("éééééééééééééééééééé", None);
    }
}
