//! Bodies: read whole up to a limit, or thrown away so that the refusal reaches the client.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::{Instant, timeout_at};

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    /// The client went away or broke the framing.
    Broken(String),
}

/// Reads the whole body. The usual body arrives as one frame and is handed on without a copy.
pub(super) async fn read<B>(body: &mut B, limit: usize, time: Duration) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = body.size_hint();
    if announced.lower() > limit as u64 {
        return Err(BodyError::TooLarge);
    }
    let deadline = Instant::now() + time;
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    loop {
        let Ok(frame) = timeout_at(deadline, body.frame()).await else {
            return Err(BodyError::TooSlow);
        };
        let data = match frame {
            None => break,
            Some(Err(error)) => return Err(BodyError::Broken(error.to_string())),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(_trailers) => continue,
            },
        };
        let so_far = rest.as_ref().map_or(first.len(), BytesMut::len);
        if so_far + data.len() > limit {
            return Err(BodyError::TooLarge);
        }
        match &mut rest {
            Some(buffer) => buffer.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let wanted = announced.upper().map_or(0, |upper| usize::try_from(upper).unwrap_or(limit)).min(limit);
                let mut buffer = BytesMut::with_capacity(wanted.max(first.len() + data.len()));
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
                rest = Some(buffer);
            }
        }
    }
    Ok(rest.map_or(first, BytesMut::freeze))
}

/// Reads and forgets up to `most` bytes. A client that is still sending when the connection closes sees a reset instead
/// of the answer, so a refusal lets it finish if it can do so soon.
pub(super) async fn discard<B>(body: &mut B, most: usize, time: Duration)
where
    B: Body<Data = Bytes> + Unpin,
{
    let deadline = Instant::now() + time;
    let mut left = most;
    while left > 0 {
        match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len)),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn chunks(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames: Vec<_> = parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
        StreamBody::new(stream::iter(frames))
    }

    #[tokio::test]
    async fn joins_what_arrives_in_pieces() {
        assert_eq!(read(&mut chunks(&[]), 8, SOON).await, Ok(Bytes::new()));
        assert_eq!(read(&mut chunks(&["ab"]), 8, SOON).await, Ok(Bytes::from("ab")));
        assert_eq!(read(&mut chunks(&["ab", "", "cd", "ef"]), 6, SOON).await, Ok(Bytes::from("abcdef")));
    }

    #[tokio::test]
    async fn stops_at_the_limit_whether_announced_or_not() {
        assert_eq!(read(&mut chunks(&["abc", "def"]), 5, SOON).await, Err(BodyError::TooLarge));
        assert_eq!(read(&mut Full::new(Bytes::from("abcdef")), 5, SOON).await, Err(BodyError::TooLarge));
        assert_eq!(read(&mut Full::new(Bytes::from("abcde")), 5, SOON).await, Ok(Bytes::from("abcde")));
    }

    #[tokio::test]
    async fn gives_up_on_a_body_that_does_not_come() {
        const SOON: Duration = Duration::from_millis(5);
        let mut never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(read(&mut never, 5, SOON).await, Err(BodyError::TooSlow));
        discard(&mut never, 5, SOON).await;
    }
}
