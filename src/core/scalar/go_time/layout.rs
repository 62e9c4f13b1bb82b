//! Layouts: the reference time `Mon Jan 2 15:04:05 MST 2006` written the way the text is written.

use jiff::civil::{self, Date};

use super::{Time, TimeError};

/// A recognised piece of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    LongYear,
    Year,
    LongMonth,
    Month,
    NumericMonth(Digits),
    LongWeekday,
    Weekday,
    Day(Digits),
    YearDay(Digits),
    Hour,
    Hour12(Digits),
    Minute(Digits),
    Second(Digits),
    /// `PM`, or `pm` if lower.
    HalfDay {
        lower: bool,
    },
    /// `.000`: exactly this many digits.
    Fraction(usize),
    /// `.999`: up to this many digits, possibly none.
    OptionalFraction(usize),
    Offset(OffsetForm),
    ZoneName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Plain,
    Zero,
    /// Padded with spaces.
    Space,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetForm {
    /// Whether UTC is written `Z`.
    zulu: bool,
    colons: bool,
    /// Pairs of digits: hours, minutes, seconds.
    pairs: usize,
}

/// Longer tokens come before their own beginnings.
const TOKENS: &[(&str, Token)] = &[
    ("January", Token::LongMonth),
    ("Jan", Token::Month),
    ("Monday", Token::LongWeekday),
    ("Mon", Token::Weekday),
    ("MST", Token::ZoneName),
    ("002", Token::YearDay(Digits::Zero)),
    ("01", Token::NumericMonth(Digits::Zero)),
    ("02", Token::Day(Digits::Zero)),
    ("03", Token::Hour12(Digits::Zero)),
    ("04", Token::Minute(Digits::Zero)),
    ("05", Token::Second(Digits::Zero)),
    ("06", Token::Year),
    ("15", Token::Hour),
    ("1", Token::NumericMonth(Digits::Plain)),
    ("2006", Token::LongYear),
    ("2", Token::Day(Digits::Plain)),
    ("__2", Token::YearDay(Digits::Space)),
    ("_2", Token::Day(Digits::Space)),
    ("3", Token::Hour12(Digits::Plain)),
    ("4", Token::Minute(Digits::Plain)),
    ("5", Token::Second(Digits::Plain)),
    ("PM", Token::HalfDay { lower: false }),
    ("pm", Token::HalfDay { lower: true }),
    ("-070000", offset(false, false, 3)),
    ("-07:00:00", offset(false, true, 3)),
    ("-0700", offset(false, false, 2)),
    ("-07:00", offset(false, true, 2)),
    ("-07", offset(false, false, 1)),
    ("Z070000", offset(true, false, 3)),
    ("Z07:00:00", offset(true, true, 3)),
    ("Z0700", offset(true, false, 2)),
    ("Z07:00", offset(true, true, 2)),
    ("Z07", offset(true, false, 1)),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

const fn offset(zulu: bool, colons: bool, pairs: usize) -> Token {
    Token::Offset(OffsetForm { zulu, colons, pairs })
}

/// The first token of a layout: the literal text before it, the token, the layout after it.
fn next_token(layout: &str) -> (&str, Option<(Token, &str)>) {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        if let Some((token, length)) = token_at(rest) {
            return (&layout[..at], Some((token, &rest[length..])));
        }
    }
    (layout, None)
}

fn token_at(rest: &str) -> Option<(Token, usize)> {
    if rest.starts_with(['.', ',']) {
        let digits = &rest[1..];
        let digit = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
        let count = digits.chars().take_while(|c| *c == digit).count();
        if digits[count..].starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let token = if digit == '0' {
            Token::Fraction(count)
        } else {
            Token::OptionalFraction(count)
        };
        return Some((token, count + 1));
    }
    // An underscore before a year is an underscore.
    if rest.starts_with("_2006") {
        return None;
    }
    let (name, token) = TOKENS.iter().find(|(name, _)| rest.starts_with(name))?;
    // "Monitor" and "Janet" are words, not names of the reference time.
    let word = matches!(token, Token::Weekday | Token::Month)
        && rest[name.len()..].starts_with(|c: char| c.is_ascii_lowercase());
    (!word).then_some((*token, name.len()))
}

/// What has been read so far.
struct Fields {
    year: i16,
    month: Option<i8>,
    day: Option<i8>,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    afternoon: Option<bool>,
    offset: i32,
}

/// Why a piece could not be read.
enum Fault {
    Mismatch,
    Range(&'static str),
}

pub(super) fn parse(layout: &str, text: &str) -> Result<Time, TimeError> {
    let mut fields = Fields {
        year: 0,
        month: None,
        day: None,
        year_day: None,
        hour: 0,
        minute: 0,
        second: 0,
        nanosecond: 0,
        afternoon: None,
        offset: 0,
    };
    let mut rest = text;
    let fault = |fault: Fault, rest: &str| match fault {
        Fault::Mismatch => TimeError::Mismatch {
            text: text.to_owned(),
            layout: layout.to_owned(),
            rest: rest.to_owned(),
        },
        Fault::Range(what) => TimeError::OutOfRange {
            text: text.to_owned(),
            what,
        },
    };
    let mut remaining = layout;
    loop {
        let (literal, token) = next_token(remaining);
        rest = skip_literal(rest, literal).map_err(|at| fault(Fault::Mismatch, at))?;
        let Some((token, after)) = token else { break };
        let fraction_follows = matches!(
            next_token(after),
            ("", Some((Token::Fraction(_) | Token::OptionalFraction(_), _)))
        );
        rest = fields
            .read(token, fraction_follows, rest)
            .map_err(|why| fault(why, rest))?;
        remaining = after;
    }
    if !rest.is_empty() {
        return Err(fault(Fault::Mismatch, rest));
    }
    fields.finish().map_err(|why| fault(why, rest))
}

impl Fields {
    /// Reads one token, gives back the text after it.
    fn read<'t>(&mut self, token: Token, fraction_follows: bool, text: &'t str) -> Result<&'t str, Fault> {
        match token {
            Token::LongYear => {
                let digits = text
                    .get(..4)
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
                self.year = digits.and_then(|digits| digits.parse().ok()).ok_or(Fault::Mismatch)?;
                Ok(&text[4..])
            }
            Token::Year => {
                let (year, rest) = number(text, Digits::Zero)?;
                self.year = if year >= 69 {
                    1900 + i16::from(year)
                } else {
                    2000 + i16::from(year)
                };
                Ok(rest)
            }
            Token::LongMonth | Token::Month => {
                let (index, rest) = name(text, &MONTHS, token == Token::Month)?;
                self.month = Some(index as i8 + 1);
                Ok(rest)
            }
            Token::LongWeekday | Token::Weekday => Ok(name(text, &WEEKDAYS, token == Token::Weekday)?.1),
            Token::NumericMonth(digits) => {
                let (month, rest) = number(text, digits)?;
                self.month = Some(within(month, 1..=12, "month")?);
                Ok(rest)
            }
            Token::Day(digits) => {
                let (day, rest) = number(text, digits)?;
                self.day = Some(day);
                Ok(rest)
            }
            Token::YearDay(digits) => {
                let text = if digits == Digits::Space {
                    text.trim_start_matches(' ')
                } else {
                    text
                };
                let most = text.bytes().take(3).take_while(u8::is_ascii_digit).count();
                if most == 0 || (digits == Digits::Zero && most < 3) {
                    return Err(Fault::Mismatch);
                }
                self.year_day = text[..most].parse().ok();
                Ok(&text[most..])
            }
            Token::Hour => {
                let (hour, rest) = number(text, Digits::Plain)?;
                self.hour = within(hour, 0..=23, "hour")?;
                Ok(rest)
            }
            Token::Hour12(digits) => {
                let (hour, rest) = number(text, digits)?;
                self.hour = within(hour, 0..=12, "hour")?;
                Ok(rest)
            }
            Token::Minute(digits) => {
                let (minute, rest) = number(text, digits)?;
                self.minute = within(minute, 0..=59, "minute")?;
                Ok(rest)
            }
            Token::Second(digits) => {
                let (second, rest) = number(text, digits)?;
                self.second = within(second, 0..=59, "second")?;
                // A fraction is welcome even where the layout has none.
                if fraction_follows {
                    Ok(rest)
                } else {
                    Ok(self.read_fraction(rest))
                }
            }
            Token::HalfDay { lower } => {
                let (am, pm) = if lower { ("am", "pm") } else { ("AM", "PM") };
                self.afternoon = Some(text.starts_with(pm));
                text.strip_prefix(pm)
                    .or_else(|| text.strip_prefix(am))
                    .ok_or(Fault::Mismatch)
            }
            Token::Fraction(count) => {
                let end = count + 1;
                let digits = text.get(1..end).filter(|_| text.starts_with(['.', ',']));
                if !digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
                    return Err(Fault::Mismatch);
                }
                self.read_fraction(&text[..end]);
                Ok(&text[end..])
            }
            Token::OptionalFraction(_) => Ok(self.read_fraction(text)),
            Token::Offset(form) => {
                let (offset, rest) = form.read(text)?;
                self.offset = offset;
                Ok(rest)
            }
            Token::ZoneName => {
                let length = zone_name(text).ok_or(Fault::Mismatch)?;
                let (zone, rest) = text.split_at(length);
                // Other abbreviations are ambiguous, so they count as UTC.
                let hours: i32 = zone
                    .strip_prefix("GMT")
                    .and_then(|hours| hours.parse().ok())
                    .unwrap_or(0);
                self.offset = hours * 3600;
                Ok(rest)
            }
        }
    }

    /// Takes a decimal separator and digits if they are there.
    fn read_fraction<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(digits) = text.strip_prefix(['.', ',']) else {
            return text;
        };
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return text;
        }
        let nine = format!("{:0<9.9}", &digits[..count]);
        self.nanosecond = nine.parse().unwrap_or(0);
        &digits[count..]
    }

    fn finish(self) -> Result<Time, Fault> {
        let hour = match (self.afternoon, self.hour) {
            (Some(true), hour) if hour < 12 => hour + 12,
            (Some(false), 12) => 0,
            (_, hour) => hour,
        };
        let date = match self.year_day {
            Some(days) => {
                let first = Date::new(self.year, 1, 1).map_err(|_| Fault::Range("year"))?;
                if days < 1 || days > first.days_in_year() {
                    return Err(Fault::Range("day of year"));
                }
                let date = first
                    .checked_add(jiff::SignedDuration::from_hours(24 * i64::from(days - 1)))
                    .map_err(|_| Fault::Range("day of year"))?;
                let agrees = self.month.is_none_or(|month| month == date.month())
                    && self.day.is_none_or(|day| day == date.day());
                agrees.then_some(date).ok_or(Fault::Range("day of year"))?
            }
            None => {
                Date::new(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1)).map_err(|_| Fault::Range("day"))?
            }
        };
        let time =
            civil::Time::new(hour, self.minute, self.second, self.nanosecond).map_err(|_| Fault::Range("hour"))?;
        Ok(Time::from_parts(date, time, self.offset))
    }
}

impl OffsetForm {
    fn read(self, text: &str) -> Result<(i32, &str), Fault> {
        if self.zulu
            && let Some(rest) = text.strip_prefix('Z')
        {
            return Ok((0, rest));
        }
        let (sign, mut rest) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => return Err(Fault::Mismatch),
        };
        let mut seconds = 0;
        for (pair, unit) in [3600, 60, 1].into_iter().take(self.pairs).enumerate() {
            if self.colons && pair > 0 {
                rest = rest.strip_prefix(':').ok_or(Fault::Mismatch)?;
            }
            let (value, after) = number(rest, Digits::Zero)?;
            let most = if pair == 0 { 24 } else { 60 };
            seconds += unit * i32::from(within(value, 0..=most, "zone offset")?);
            rest = after;
        }
        Ok((sign * seconds, rest))
    }

    fn write(self, offset: i32, out: &mut String) {
        if self.zulu && offset == 0 {
            out.push('Z');
            return;
        }
        out.push(if offset < 0 { '-' } else { '+' });
        let seconds = offset.abs();
        for (pair, value) in [seconds / 3600, seconds / 60 % 60, seconds % 60]
            .into_iter()
            .take(self.pairs)
            .enumerate()
        {
            if self.colons && pair > 0 {
                out.push(':');
            }
            out.push_str(&format!("{value:02}"));
        }
    }
}

pub(super) fn format(layout: &str, time: &Time) -> String {
    let mut out = String::with_capacity(layout.len() + 10);
    let mut rest = layout;
    loop {
        let (literal, token) = next_token(rest);
        out.push_str(literal);
        let Some((token, after)) = token else { return out };
        write(token, time, &mut out);
        rest = after;
    }
}

fn write(token: Token, time: &Time, out: &mut String) {
    let local = time.local;
    let padded = |value: i16, width: usize, digits: Digits| match digits {
        Digits::Plain => value.to_string(),
        Digits::Zero => format!("{value:0width$}"),
        Digits::Space => format!("{value:width$}"),
    };
    let month = MONTHS[usize::from(local.month().unsigned_abs()).saturating_sub(1) % 12];
    let weekday = WEEKDAYS[usize::from(local.weekday().to_sunday_zero_offset().unsigned_abs()) % 7];
    let text = match token {
        Token::LongYear => format!("{:04}", local.year()),
        Token::Year => format!("{:02}", local.year() % 100),
        Token::LongMonth => month.to_owned(),
        Token::Month => month[..3].to_owned(),
        Token::NumericMonth(digits) => padded(local.month().into(), 2, digits),
        Token::LongWeekday => weekday.to_owned(),
        Token::Weekday => weekday[..3].to_owned(),
        Token::Day(digits) => padded(local.day().into(), 2, digits),
        Token::YearDay(digits) => padded(local.date().day_of_year(), 3, digits),
        Token::Hour => format!("{:02}", local.hour()),
        Token::Hour12(digits) => padded(i16::from((local.hour() + 11) % 12 + 1), 2, digits),
        Token::Minute(digits) => padded(local.minute().into(), 2, digits),
        Token::Second(digits) => padded(local.second().into(), 2, digits),
        Token::HalfDay { lower } => match (local.hour() >= 12, lower) {
            (true, false) => "PM",
            (true, true) => "pm",
            (false, false) => "AM",
            (false, true) => "am",
        }
        .to_owned(),
        Token::Fraction(count) => {
            let nanos = format!("{:09}", local.subsec_nanosecond());
            format!(".{nanos:0<count$.count$}")
        }
        Token::OptionalFraction(count) => {
            let nanos = format!("{:09}", local.subsec_nanosecond());
            let digits = nanos[..count.min(9)].trim_end_matches('0');
            if digits.is_empty() {
                String::new()
            } else {
                format!(".{digits}")
            }
        }
        Token::Offset(form) => return form.write(time.offset, out),
        Token::ZoneName if time.offset == 0 => "UTC".to_owned(),
        Token::ZoneName => {
            let pairs = if time.offset % 3600 == 0 { 1 } else { 2 };
            return OffsetForm {
                zulu: false,
                colons: false,
                pairs,
            }
            .write(time.offset, out);
        }
    };
    out.push_str(&text);
}

/// Takes the literal off the text; a space stands for any number of spaces. The error is where they part.
fn skip_literal<'t>(mut text: &'t str, mut literal: &str) -> Result<&'t str, &'t str> {
    while let Some(c) = literal.chars().next() {
        if c == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return Err(text);
            }
            literal = literal.trim_start_matches(' ');
            text = text.trim_start_matches(' ');
        } else {
            literal = &literal[c.len_utf8()..];
            text = text.strip_prefix(c).ok_or(text)?;
        }
    }
    Ok(text)
}

/// One or two digits; two are needed if they are padded with zeros.
fn number(text: &str, digits: Digits) -> Result<(i8, &str), Fault> {
    let text = if digits == Digits::Space {
        text.strip_prefix(' ').unwrap_or(text)
    } else {
        text
    };
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if count == 0 || (digits == Digits::Zero && count < 2) {
        return Err(Fault::Mismatch);
    }
    let value = text[..count].parse().map_err(|_| Fault::Mismatch)?;
    Ok((value, &text[count..]))
}

fn within(value: i8, range: std::ops::RangeInclusive<i8>, what: &'static str) -> Result<i8, Fault> {
    range.contains(&value).then_some(value).ok_or(Fault::Range(what))
}

/// The index of the name that the text starts with, in any case.
fn name<'t>(text: &'t str, names: &[&str], short: bool) -> Result<(usize, &'t str), Fault> {
    for (index, name) in names.iter().enumerate() {
        let name = if short { &name[..3] } else { name };
        if let Some(start) = text.get(..name.len())
            && start.eq_ignore_ascii_case(name)
        {
            return Ok((index, &text[name.len()..]));
        }
    }
    Err(Fault::Mismatch)
}

/// The length of a zone abbreviation: three letters, four or five that end in T, `GMT+3`, or a bare `+03`.
fn zone_name(text: &str) -> Option<usize> {
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if text.starts_with("UTC") {
        return Some(3);
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        return Some(3 + signed_hours(rest).unwrap_or(0));
    }
    if text.starts_with(['+', '-']) {
        return signed_hours(text);
    }
    let letters = text.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    match letters {
        3 => Some(3),
        4 if text[..4].ends_with('T') || text.starts_with("WITA") => Some(4),
        5 if text[..5].ends_with('T') => Some(5),
        _ => None,
    }
}

/// The length of a sign and hours below 24.
fn signed_hours(text: &str) -> Option<usize> {
    let digits = text
        .strip_prefix(['+', '-'])?
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let hours: u32 = text.get(1..=digits)?.parse().ok()?;
    (hours < 24).then_some(digits + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_by_example() {
        #[track_caller]
        fn check(layout: &str, text: &str, expected: &str) {
            let time = parse(layout, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(time.to_string(), expected);
        }
        check(
            "Mon Jan 02 15:04:05 -0700 2006",
            "Sat Jan 02 15:04:05 -0700 2021",
            "2021-01-02T15:04:05-07:00",
        );
        check(
            "Mon Jan _2 15:04:05 MST 2006",
            "Mon Jan 02 15:04:05 MST 2021",
            "2021-01-02T15:04:05Z",
        );
        check(
            "Mon Jan _2 15:04:05 MST 2006",
            "Mon Jan  2 15:04:05 GMT+3 2021",
            "2021-01-02T15:04:05+03:00",
        );
        check(
            "Monday, 02-Jan-06 15:04:05 MST",
            "friday, 01-FEB-69 01:02:03 CEST",
            "1969-02-01T01:02:03Z",
        );
        check(
            "02 Jan 06 15:04 -0700",
            "01 Feb 68 01:02 +0530",
            "2068-02-01T01:02:00+05:30",
        );
        check("2006-01-02", "2024-02-29", "2024-02-29T00:00:00Z");
        check("3:04PM", "1:05PM", "0000-01-01T13:05:00Z");
        check("3:04PM", "12:05AM", "0000-01-01T00:05:00Z");
        check("03:04 pm", "12:05 pm", "0000-01-01T12:05:00Z");
        check("2006-002", "2024-060", "2024-02-29T00:00:00Z");
        check("2006-01-02 15:04:05", "2024-02-29   1:02:03.5", "2024-02-29T01:02:03Z");
        check(
            "2006-01-02T15:04:05.000Z07:00",
            "2024-02-29T01:02:03,123-01:00",
            "2024-02-29T01:02:03-01:00",
        );
        check(
            "2006-01-02T15:04:05.999999999Z07:00",
            "2024-02-29T01:02:03Z",
            "2024-02-29T01:02:03Z",
        );
        check("2006 Janet 1", "2024 Janet 3", "2024-03-01T00:00:00Z");
        check("2006_2_1", "2024 5_3", "2024-03-05T00:00:00Z");
        check("15 -07", "04 +03", "0000-01-01T04:00:00+03:00");
    }

    #[test]
    fn fractions_are_kept() {
        let time = parse("2006-01-02T15:04:05Z07:00", "2024-02-29T01:02:03.1234567891Z").unwrap();
        assert_eq!(time.local().subsec_nanosecond(), 123_456_789);
    }

    #[test]
    fn refusals() {
        #[track_caller]
        fn check(layout: &str, text: &str, what: &str) {
            let error = parse(layout, text).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        check("2006-01-02", "2024-1-02", "at `1-02`");
        check("2006-01-02", "2023-02-29", "day out of range");
        check("2006-01-02", "2024-00-01", "month out of range");
        check("2006-01-02", "2024-01-01x", "at `x`");
        check("2006-01-02", "", "at ``");
        check("15:04", "24:00", "hour out of range");
        check("Jan", "Foo", "at `Foo`");
        check("MST", "Foo", "at `Foo`");
        check("-0700", "0700", "at `0700`");
        check("05.000", "01.12", "at `.12`");
        check("2006-002", "2023-366", "day of year out of range");
    }

    #[test]
    fn times_are_written_by_example() {
        let time = parse("2006-01-02T15:04:05Z07:00", "2021-01-02T15:04:05.120-07:30").unwrap();
        for (layout, expected) in [
            ("Mon Jan _2 15:04:05 2006", "Sat Jan  2 15:04:05 2021"),
            ("Monday, 02-Jan-06 03:04:05 pm", "Saturday, 02-Jan-21 03:04:05 pm"),
            ("January 2, 2006 at 3:4:5PM", "January 2, 2021 at 3:4:5PM"),
            ("05.000 05.999999 05,9", "05.120 05.12 05.1"),
            ("-0700 -07:00 -07 Z07:00 MST", "-0730 -07:30 -07 -07:30 -0730"),
            ("002 __2", "002   2"),
        ] {
            assert_eq!(format(layout, &time), expected);
        }
        assert_eq!(format("Z0700 MST", &Time::from_unix(0).unwrap()), "Z UTC");
    }

    proptest! {
        #[test]
        fn no_input_panics(layout in "([0-9_.,: -]|Jan|Mon|MST|Z07:00|-0700|2006|PM|002|é){0,8}", text in ".{0,16}") {
            if let Ok(time) = parse(&layout, &text) {
                let _ = format(&layout, &time);
            }
        }

        #[test]
        fn written_times_read_back(seconds in 0_i64..4_000_000_000) {
            let time = Time::from_unix(seconds).unwrap();
            let layout = "Monday Jan _2 2006 03:04:05PM -0700";
            prop_assert_eq!(parse(layout, &format(layout, &time)), Ok(time));
        }
    }
}
