//! Reading a text by its layout.

use jiff::civil::{self, Date};

use super::layout::{Digits, MONTHS, OffsetForm, Token, WEEKDAYS, next_token};
use super::{Time, TimeError};

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
    shown_offset: i32,
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
        shown_offset: 0,
    };
    let mut rest = text;
    let fault = |fault: Fault, rest: &str| match fault {
        Fault::Mismatch => {
            TimeError::Mismatch { text: text.to_owned(), layout: layout.to_owned(), rest: rest.to_owned() }
        }
        Fault::Range(what) => TimeError::OutOfRange { text: text.to_owned(), what },
    };
    let mut remaining = layout;
    loop {
        let (literal, token) = next_token(remaining);
        rest = skip_literal(rest, literal).map_err(|at| fault(Fault::Mismatch, at))?;
        let Some((token, after)) = token else { break };
        let fraction_follows =
            matches!(next_token(after), ("", Some((Token::Fraction(..) | Token::OptionalFraction(..), _))));
        rest = fields.read(token, fraction_follows, rest).map_err(|why| fault(why, rest))?;
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
                let digits = text.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
                self.year = digits.and_then(|digits| digits.parse().ok()).ok_or(Fault::Mismatch)?;
                Ok(&text[4..])
            }
            Token::Year => {
                let (year, rest) = number(text, Digits::Zero)?;
                self.year = if year >= 69 { 1900 + i16::from(year) } else { 2000 + i16::from(year) };
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
                let text = if digits == Digits::Space { text.trim_start_matches(' ') } else { text };
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
                if fraction_follows { Ok(rest) } else { Ok(self.read_fraction(rest)) }
            }
            Token::HalfDay { lower } => {
                let (am, pm) = if lower { ("am", "pm") } else { ("AM", "PM") };
                self.afternoon = Some(text.starts_with(pm));
                text.strip_prefix(pm).or_else(|| text.strip_prefix(am)).ok_or(Fault::Mismatch)
            }
            Token::Fraction(_, count) => {
                let end = count + 1;
                let digits = text.get(1..end).filter(|_| text.starts_with(['.', ',']));
                if !digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
                    return Err(Fault::Mismatch);
                }
                self.read_fraction(&text[..end]);
                Ok(&text[end..])
            }
            Token::OptionalFraction(..) => Ok(self.read_fraction(text)),
            Token::Offset(form) => {
                let (offset, rest) = form.read(text)?;
                self.offset = offset;
                Ok(rest)
            }
            Token::ZoneName => {
                let length = zone_name(text).ok_or(Fault::Mismatch)?;
                let (zone, rest) = text.split_at(length);
                // Abbreviations are ambiguous, so the clock is read as UTC. Of `GMT+3`, Go takes the offset to show the
                // result with, but not to read the clock by.
                let hours: i32 = zone.strip_prefix("GMT").and_then(|hours| hours.parse().ok()).unwrap_or(0);
                self.shown_offset = hours * 3600;
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
        let time = Time::from_parts(date, time, self.offset);
        if self.shown_offset == 0 {
            return Ok(time);
        }
        Time::from_nanos(time.as_nanos(), self.shown_offset).map_err(|_| Fault::Range("year"))
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
    let text = if digits == Digits::Space { text.strip_prefix(' ').unwrap_or(text) } else { text };
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
    let digits = text.strip_prefix(['+', '-'])?.bytes().take_while(u8::is_ascii_digit).count();
    let hours: u32 = text.get(1..=digits)?.parse().ok()?;
    (hours < 24).then_some(digits + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_example() {
        #[track_caller]
        fn check(layout: &str, text: &str, expected: &str) {
            let time = parse(layout, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(time.to_string(), expected);
        }
        check("Mon Jan 02 15:04:05 -0700 2006", "Sat Jan 02 15:04:05 -0700 2021", "2021-01-02T15:04:05-07:00");
        check("Mon Jan _2 15:04:05 MST 2006", "Mon Jan 02 15:04:05 MST 2021", "2021-01-02T15:04:05Z");
        check("Mon Jan _2 15:04:05 MST 2006", "Mon Jan  2 15:04:05 GMT+3 2021", "2021-01-02T18:04:05+03:00");
        check("Monday, 02-Jan-06 15:04:05 MST", "friday, 01-FEB-69 01:02:03 CEST", "1969-02-01T01:02:03Z");
        check("02 Jan 06 15:04 -0700", "01 Feb 68 01:02 +0530", "2068-02-01T01:02:00+05:30");
        check("2006-01-02", "2024-02-29", "2024-02-29T00:00:00Z");
        check("3:04PM", "1:05PM", "0000-01-01T13:05:00Z");
        check("3:04PM", "12:05AM", "0000-01-01T00:05:00Z");
        check("03:04 pm", "12:05 pm", "0000-01-01T12:05:00Z");
        check("2006-002", "2024-060", "2024-02-29T00:00:00Z");
        check("2006-01-02 15:04:05", "2024-02-29   1:02:03.5", "2024-02-29T01:02:03Z");
        check("2006-01-02T15:04:05.000Z07:00", "2024-02-29T01:02:03,123-01:00", "2024-02-29T01:02:03-01:00");
        check("2006-01-02T15:04:05.999999999Z07:00", "2024-02-29T01:02:03Z", "2024-02-29T01:02:03Z");
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
}
