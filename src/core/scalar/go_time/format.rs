//! Writing a time by a layout.

use super::Time;
use super::layout::{Digits, MONTHS, OffsetForm, Token, WEEKDAYS, next_token};

/// How a zone is written whose name is not known.
const OFFSET_INSTEAD_OF_NAME: OffsetForm = OffsetForm { zulu: false, colons: false, pairs: 2 };

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
        Token::Fraction(separator, count) => {
            let nanos = format!("{:09}", local.subsec_nanosecond());
            format!("{separator}{nanos:0<count$.count$}")
        }
        Token::OptionalFraction(separator, count) => {
            let nanos = format!("{:09}", local.subsec_nanosecond());
            let digits = nanos[..count.min(9)].trim_end_matches('0');
            if digits.is_empty() { String::new() } else { format!("{separator}{digits}") }
        }
        Token::Offset(form) => return form.write(time.offset, out),
        Token::ZoneName if time.offset == 0 => "UTC".to_owned(),
        Token::ZoneName => return OFFSET_INSTEAD_OF_NAME.write(time.offset, out),
    };
    out.push_str(&text);
}

impl OffsetForm {
    fn write(self, offset: i32, out: &mut String) {
        if self.zulu && offset == 0 {
            out.push('Z');
            return;
        }
        out.push(if offset < 0 { '-' } else { '+' });
        let seconds = offset.abs();
        for (pair, value) in [seconds / 3600, seconds / 60 % 60, seconds % 60].into_iter().take(self.pairs).enumerate()
        {
            if self.colons && pair > 0 {
                out.push(':');
            }
            out.push_str(&format!("{value:02}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse::parse;
    use super::*;

    #[test]
    fn times_are_written_by_example() {
        let time = parse("2006-01-02T15:04:05Z07:00", "2021-01-02T15:04:05.120-07:30").unwrap();
        for (layout, expected) in [
            ("Mon Jan _2 15:04:05 2006", "Sat Jan  2 15:04:05 2021"),
            ("Monday, 02-Jan-06 03:04:05 pm", "Saturday, 02-Jan-21 03:04:05 pm"),
            ("January 2, 2006 at 3:4:5PM", "January 2, 2021 at 3:4:5PM"),
            ("05.000 05.999999 05,9 05,00", "05.120 05.12 05,1 05,12"),
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
