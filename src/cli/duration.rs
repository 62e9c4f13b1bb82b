//! Durations as people write them on a command line: Go's (`1h30m`, `90s`, `250ms`), whole days (`90d`).

use std::time::Duration;

/// Reads a duration that is not negative.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    if let Some(days) = text.strip_suffix('d')
        && let Ok(days) = days.parse::<u32>()
    {
        return Ok(Duration::from_secs(u64::from(days) * 24 * 60 * 60));
    }
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let parsed: kube::core::Duration =
        text.parse().map_err(|error| format!("{error}; write it like 90d, 1h30m, 45s or 250ms"))?;
    if parsed.is_negative() {
        return Err("must not be negative".to_owned());
    }
    Ok(parsed.into())
}

/// Reads a duration that must lie between two others; both are written as a user would.
pub(super) fn between(least: &'static str, most: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let (found, least_time, most_time) = (parse(text)?, parse(least)?, parse(most)?);
        match (least_time..=most_time).contains(&found) {
            true => Ok(found),
            false => Err(format!("must be from {least} to {most}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, millis: Option<u64>) {
        assert_eq!(parse(text).ok(), millis.map(Duration::from_millis), "{text}");
    }

    #[test]
    fn reads_days_and_go_durations() {
        check("90d", Some(90 * 86_400_000));
        check("2160h", Some(90 * 86_400_000));
        check("1h30m", Some(5_400_000));
        check("30s", Some(30_000));
        check("250ms", Some(250));
        check("0", Some(0));
        check("-1s", None);
        check("5", None);
        check("1.5d", None);
        check("", None);
    }

    #[test]
    fn keeps_within_bounds() {
        let parse = between("5s", "2d");
        for good in ["5s", "1h", "48h", "2d"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["0", "4999ms", "48h1ms", "4294967295d"] {
            assert_eq!(parse(bad), Err("must be from 5s to 2d".to_owned()), "{bad}");
        }
    }
}
