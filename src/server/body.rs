//! Bodies: read whole up to a limit, or thrown away so that the refusal reaches the client.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::Limits;

/// Room that a body gets for announcing itself. The usual body needs no more, and one that never comes keeps no more.
const FIRST: usize = 64 << 10;
/// Room is counted in pieces of this size.
const PIECE: usize = 1 << 10;

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    /// Other bodies had all the room for too long.
    NoRoom,
    /// The client went away or broke the framing.
    Broken(String),
}

/// The memory that bodies of one listener may take, all together.
#[derive(Debug)]
pub(super) struct Room(Semaphore);

impl Room {
    pub(super) fn new(limits: &Limits) -> Self {
        // A body that may be read must fit, even if it is the only one.
        let pieces = limits.bodies.max(limits.body).div_ceil(PIECE);
        Self(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS)))
    }
}

/// What one body has taken of the room. It goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    room: &'a Room,
    taken: Option<SemaphorePermit<'a>>,
}

impl<'a> Share<'a> {
    fn none(room: &'a Room) -> Self {
        Self { room, taken: None }
    }

    fn pieces(&self) -> usize {
        self.taken.as_ref().map_or(0, SemaphorePermit::num_permits)
    }

    fn covers(&self, bytes: usize) -> bool {
        bytes <= self.pieces() * PIECE
    }

    /// Grows until it covers so many bytes.
    async fn grow(&mut self, bytes: usize, patience: Duration) -> Result<(), BodyError> {
        let more = bytes.div_ceil(PIECE).saturating_sub(self.pieces());
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| BodyError::TooLarge)?;
        let Self { room: Room(room), .. } = *self;
        let permit = match room.try_acquire_many(more) {
            Ok(permit) => permit,
            Err(_) => match timeout(patience, room.acquire_many(more)).await {
                Ok(Ok(permit)) => permit,
                _ => return Err(BodyError::NoRoom),
            },
        };
        match &mut self.taken {
            Some(taken) => taken.merge(permit),
            None => self.taken = Some(permit),
        }
        Ok(())
    }
}

/// Reads the whole body, in room of its own. The usual body arrives as one frame and is handed on without a copy.
pub(super) async fn read<'a, B>(body: &mut B, limits: &Limits, room: &'a Room) -> Result<(Bytes, Share<'a>), BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let limit = limits.body;
    let announced = body.size_hint();
    if announced.lower() > limit as u64 {
        return Err(BodyError::TooLarge);
    }
    let most = announced.upper().map_or(limit, |upper| usize::try_from(upper).unwrap_or(limit)).min(limit);
    let mut share = Share::none(room);
    if announced.upper().is_some() {
        share.grow(most.min(FIRST), limits.queue_time).await?;
    }
    let deadline = Instant::now() + limits.body_time;
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
        let so_far = rest.as_ref().map_or(first.len(), BytesMut::len) + data.len();
        if so_far > limit {
            return Err(BodyError::TooLarge);
        }
        // Never more than twice of what has come: announcing much takes nothing from others.
        if !share.covers(so_far) {
            let patience = limits.queue_time.min(deadline.saturating_duration_since(Instant::now()));
            share.grow((2 * so_far).min(most), patience).await?;
        }
        match &mut rest {
            Some(buffer) => buffer.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let wanted = announced.upper().map_or(0, |_| most);
                let mut buffer = BytesMut::with_capacity(wanted.max(so_far));
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
                rest = Some(buffer);
            }
        }
    }
    Ok((rest.map_or(first, BytesMut::freeze), share))
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
    const AT_ONCE: Duration = Duration::from_millis(5);

    fn limits(body: usize) -> Limits {
        Limits { body, bodies: 0, body_time: SOON, queue_time: AT_ONCE, ..Limits::default() }
    }

    async fn read<B>(body: &mut B, limits: &Limits) -> Result<Bytes, BodyError>
    where
        B: Body<Data = Bytes, Error = Infallible> + Unpin,
    {
        super::read(body, limits, &Room::new(limits)).await.map(|(bytes, _share)| bytes)
    }

    fn chunks(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames: Vec<_> = parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
        StreamBody::new(stream::iter(frames))
    }

    #[tokio::test]
    async fn joins_what_arrives_in_pieces() {
        assert_eq!(read(&mut chunks(&[]), &limits(8)).await, Ok(Bytes::new()));
        assert_eq!(read(&mut chunks(&["ab"]), &limits(8)).await, Ok(Bytes::from("ab")));
        assert_eq!(read(&mut chunks(&["ab", "", "cd", "ef"]), &limits(6)).await, Ok(Bytes::from("abcdef")));
    }

    #[tokio::test]
    async fn stops_at_the_limit_whether_announced_or_not() {
        assert_eq!(read(&mut chunks(&["abc", "def"]), &limits(5)).await, Err(BodyError::TooLarge));
        assert_eq!(read(&mut Full::new(Bytes::from("abcdef")), &limits(5)).await, Err(BodyError::TooLarge));
        assert_eq!(read(&mut Full::new(Bytes::from("abcde")), &limits(5)).await, Ok(Bytes::from("abcde")));
    }

    #[tokio::test]
    async fn gives_up_on_a_body_that_does_not_come() {
        let limits = Limits { body_time: AT_ONCE, ..limits(5) };
        let mut never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(read(&mut never, &limits).await, Err(BodyError::TooSlow));
        discard(&mut never, 5, AT_ONCE).await;
    }

    #[tokio::test]
    async fn bodies_share_the_room_and_give_it_back() {
        const LARGE: usize = 3 * FIRST;
        let limits = Limits { bodies: LARGE + PIECE, ..limits(LARGE) };
        let room = Room::new(&limits);
        let announced = || Full::new(Bytes::from(vec![b'x'; LARGE]));
        let in_parts = || {
            let part = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; LARGE / 4])));
            StreamBody::new(stream::iter([part(), part(), part(), part()]))
        };
        let held = super::read(&mut announced(), &limits, &room).await.unwrap();
        assert!(super::read(&mut chunks(&["small"]), &limits, &room).await.is_ok(), "a piece is left");
        for _ in 0..2 {
            let refused = super::read(&mut announced(), &limits, &room).await;
            assert_eq!(refused.err(), Some(BodyError::NoRoom));
            let refused = super::read(&mut in_parts(), &limits, &room).await;
            assert_eq!(refused.err(), Some(BodyError::NoRoom));
        }
        drop(held);
        // Whatever they grew by, nothing of it is lost.
        for _ in 0..3 {
            assert!(super::read(&mut in_parts(), &limits, &room).await.is_ok());
            assert!(super::read(&mut announced(), &limits, &room).await.is_ok());
        }
    }
}
