//! The tokens of a layout: the reference time `Mon Jan 2 15:04:05 MST 2006` written the way the text is written.

/// A recognised piece of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
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
    /// `.000` or `,000`: exactly this many digits.
    Fraction(char, usize),
    /// `.999` or `,999`: up to this many digits, possibly none.
    OptionalFraction(char, usize),
    Offset(OffsetForm),
    ZoneName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    Plain,
    Zero,
    /// Padded with spaces.
    Space,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetForm {
    /// Whether UTC is written `Z`.
    pub(super) zulu: bool,
    pub(super) colons: bool,
    /// Pairs of digits: hours, minutes, seconds.
    pub(super) pairs: usize,
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

pub(super) const MONTHS: [&str; 12] = [
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
pub(super) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const fn offset(zulu: bool, colons: bool, pairs: usize) -> Token {
    Token::Offset(OffsetForm { zulu, colons, pairs })
}

/// The first token of a layout: the literal text before it, the token, the layout after it.
pub(super) fn next_token(layout: &str) -> (&str, Option<(Token, &str)>) {
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
        let separator = if rest.starts_with(',') { ',' } else { '.' };
        let token = match digit {
            '0' => Token::Fraction(separator, count),
            _ => Token::OptionalFraction(separator, count),
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
