//! Times are RFC 3339 texts, durations Go's. The clock is the runtime's and stands still.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::expr::error::Fault;
use crate::core::scalar::duration::{Duration, DurationError};
use crate::core::scalar::go_time::{Time, TimeError};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "time_now",
        takes: &["ignored..."],
        gives: "string",
        note: "The time of the evaluation in the local zone.",
        examples: &[("time_diff(time_now(), time_now_utc())", r#""0s""#)],
        call: time_now,
    },
    Function {
        name: "time_now_utc",
        takes: &["ignored..."],
        gives: "string",
        note: "The time of the evaluation in UTC.",
        examples: &[("ends_with(time_now_utc(), 'Z')", "true")],
        call: time_now_utc,
    },
    Function {
        name: "time_since",
        takes: &["string", "string", "string"],
        gives: "string",
        note: "The duration from start to end, read by a Go layout (empty: RFC 3339); an empty end is now.",
        examples: &[
            ("time_since('', '2021-01-02T15:04:05-07:00', '2021-01-10T03:14:05-07:00')", r#""180h10m0s""#),
            (
                "time_since('Mon Jan _2 15:04:05 MST 2006', 'Mon Jan 02 15:04:05 MST 2021', 'Mon Jan 10 03:14:16 MST 2021')",
                r#""180h10m11s""#,
            ),
        ],
        call: time_since,
    },
    Function {
        name: "time_diff",
        takes: &["string", "string"],
        gives: "string",
        note: "The duration from start to end.",
        examples: &[("time_diff('2021-01-02T15:04:05-07:00', '2021-01-10T03:14:05-07:00')", r#""180h10m0s""#)],
        call: time_diff,
    },
    Function {
        name: "time_add",
        takes: &["string", "string"],
        gives: "string",
        note: "The time, later by the duration.",
        examples: &[("time_add('2021-01-02T15:04:05-07:00', '3h')", r#""2021-01-02T18:04:05-07:00""#)],
        call: time_add,
    },
    Function {
        name: "time_parse",
        takes: &["string", "string"],
        gives: "string",
        note: "Reads a time by a Go layout; a layout that is an integer means seconds since 1970.",
        examples: &[
            (
                "time_parse('Mon Jan 02 15:04:05 -0700 2006', 'Sat Jan 02 15:04:05 -0700 2021')",
                r#""2021-01-02T15:04:05-07:00""#,
            ),
            ("time_parse('1702691171', '1702691171')", r#""2023-12-16T01:46:11Z""#),
        ],
        call: time_parse,
    },
    Function {
        name: "time_utc",
        takes: &["string"],
        gives: "string",
        note: "The same time in UTC.",
        examples: &[("time_utc('2023-02-02T15:04:05-07:00')", r#""2023-02-02T22:04:05Z""#)],
        call: time_utc,
    },
    Function {
        name: "time_to_cron",
        takes: &["string"],
        gives: "string",
        note: "A cron schedule for that minute: minute, hour, day, month, weekday.",
        examples: &[("time_to_cron('2023-02-02T15:04:05Z')", r#""4 15 2 2 4""#)],
        call: time_to_cron,
    },
    Function {
        name: "time_before",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Tells whether the first time is earlier.",
        examples: &[
            ("time_before('2023-01-01T00:00:00Z', '2023-01-01T00:00:01Z')", "true"),
            ("time_before('2023-01-01T00:00:00Z', '2023-01-01T00:00:00Z')", "false"),
        ],
        call: time_before,
    },
    Function {
        name: "time_after",
        takes: &["string", "string"],
        gives: "boolean",
        note: "Tells whether the first time is later.",
        examples: &[
            ("time_after('2023-01-01T00:00:01Z', '2023-01-01T00:00:00Z')", "true"),
            ("time_after('2023-01-01T00:00:00Z', '2023-01-01T00:00:00Z')", "false"),
        ],
        call: time_after,
    },
    Function {
        name: "time_between",
        takes: &["string", "string", "string"],
        gives: "boolean",
        note: "Tells whether the first time lies between the others, both ends excluded.",
        examples: &[
            ("time_between('2023-01-02T00:00:00Z', '2023-01-01T00:00:00Z', '2023-01-03T00:00:00Z')", "true"),
            ("time_between('2023-01-01T00:00:00Z', '2023-01-01T00:00:00Z', '2023-01-03T00:00:00Z')", "false"),
            ("time_between('2023-01-03T00:00:00Z', '2023-01-01T00:00:00Z', '2023-01-03T00:00:00Z')", "false"),
        ],
        call: time_between,
    },
    Function {
        name: "time_truncate",
        takes: &["string", "string"],
        gives: "string",
        note: "Rounds the time down to a multiple of the duration.",
        examples: &[
            ("time_truncate('2021-01-02T15:04:05Z', '1h')", r#""2021-01-02T15:00:00Z""#),
            ("time_truncate('2021-01-02T15:04:05Z', '0s')", r#""2021-01-02T15:04:05Z""#),
        ],
        call: time_truncate,
    },
];

fn time_now<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let time = arguments.settle_time(now(arguments, arguments.runtime.offset().seconds()))?;
    arguments.give(time.to_string())
}

fn time_now_utc<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let time = arguments.settle_time(now(arguments, 0))?;
    arguments.give(time.to_string())
}

fn now(arguments: &Arguments<'_, '_>, offset: i32) -> Result<Time, TimeError> {
    Time::from_nanos(arguments.runtime.now().as_nanosecond(), offset)
}

fn time_since<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let layout = arguments.text(0)?;
    let read = |text: &str| match &*layout {
        "" => Time::parse_rfc3339(text),
        layout => Time::parse(layout, text),
    };
    let start = arguments.settle_time(read(&arguments.text(1)?))?;
    let end = match &*arguments.text(2)? {
        "" => now(arguments, 0),
        text => read(text),
    };
    let end = arguments.settle_time(end)?;
    arguments.give(end.since(&start).to_string())
}

fn time_diff<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    arguments.give(arguments.time(1)?.since(&arguments.time(0)?).to_string())
}

fn time_add<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let later = arguments.time(0)?.checked_add(arguments.duration(1)?);
    arguments.give(arguments.settle_time(later)?.to_string())
}

fn time_parse<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (layout, text) = (arguments.text(0)?, arguments.text(1)?);
    let time = if layout.parse::<i64>().is_ok() {
        let Ok(seconds) = text.parse() else {
            return Err(arguments.fail_on(1, "is not a number of seconds"));
        };
        Time::from_unix(seconds)
    } else {
        Time::parse(&layout, &text)
    };
    arguments.give(arguments.settle_time(time)?.to_string())
}

fn time_utc<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let time = arguments.time(0)?.utc();
    arguments.give(arguments.settle_time(time)?.to_string())
}

fn time_to_cron<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    arguments.give(arguments.time(0)?.to_cron())
}

fn time_before<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(Datum::Bool(arguments.time(0)? < arguments.time(1)?))
}

fn time_after<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(Datum::Bool(arguments.time(0)? > arguments.time(1)?))
}

fn time_between<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (time, start, end) = (arguments.time(0)?, arguments.time(1)?, arguments.time(2)?);
    Ok(Datum::Bool(start < time && time < end))
}

fn time_truncate<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let truncated = arguments.time(0)?.truncate(arguments.duration(1)?);
    arguments.give(arguments.settle_time(truncated)?.to_string())
}

impl<'a> Arguments<'_, 'a> {
    fn time(&self, position: usize) -> Result<Time, Fault<'a>> {
        self.settle_time(Time::parse_rfc3339(&self.text(position)?))
    }

    fn duration(&self, position: usize) -> Result<Duration, Fault<'a>> {
        self.text(position)?.parse().map_err(|error: DurationError| self.fail_on(position, error.words()))
    }

    fn settle_time(&self, time: Result<Time, TimeError>) -> Result<Time, Fault<'a>> {
        time.map_err(|error| self.fail(error.words()))
    }
}
