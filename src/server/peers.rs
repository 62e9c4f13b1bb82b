//! Who is connected: how many connections each peer has, and which of them go first when there are too many.
//!
//! Only a connection that has not sent a request yet is ever evicted: an API server that keeps a connection open loses
//! nothing, and a peer that only holds connections open loses the oldest ones.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Limits;

/// All connections of one listener.
#[derive(Debug)]
pub(super) struct Peers {
    per_peer: usize,
    most: usize,
    table: Mutex<Table>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: usize,
    of_peer: HashMap<IpAddr, usize>,
    /// Connections that have not sent a request yet, oldest first.
    silent: BTreeMap<u64, Silent>,
}

#[derive(Debug)]
struct Silent {
    peer: IpAddr,
    /// It is one of those that are served at once, not one that waits for that.
    seated: bool,
    evict: Arc<Notify>,
}

/// One connection. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct PeerConnection {
    peers: Arc<Peers>,
    id: u64,
    peer: IpAddr,
    evict: Arc<Notify>,
    has_asked: AtomicBool,
}

impl Peers {
    pub(super) fn new(limits: &Limits) -> Self {
        let most = limits.connections + limits.overflow();
        Self { per_peer: limits.connections_per_peer.max(1), most, table: Mutex::default(), ended: Notify::new() }
    }

    /// Returns when one more connection can be accepted: there are fewer than the limit, or one can be evicted.
    pub(super) async fn vacancy(&self) {
        loop {
            let ended = self.ended.notified();
            {
                let table = self.lock();
                if table.open < self.most || !table.silent.is_empty() {
                    return;
                }
            }
            ended.await;
        }
    }

    /// Counts a new connection; nothing if its peer has too many that are in use. Evicts one that is not, if need be.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<PeerConnection> {
        let peer = peer.to_canonical();
        let mut table = self.lock();
        if table.of_peer.get(&peer).is_some_and(|count| *count >= self.per_peer)
            && !table.evict(|silent| silent.peer == peer)
        {
            return None;
        }
        if table.open >= self.most {
            table.evict(|_| true);
        }
        let (id, evict) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table.open += 1;
        *table.of_peer.entry(peer).or_default() += 1;
        table.silent.insert(id, Silent { peer, seated: false, evict: evict.clone() });
        Some(PeerConnection { peers: self.clone(), id, peer, evict, has_asked: AtomicBool::new(false) })
    }

    /// A panic elsewhere leaves the table whole: nothing in here panics.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Evicts the oldest connection of a sort that has sent no request. It counts until it has ended.
    fn evict(&mut self, sort: impl Fn(&Silent) -> bool) -> bool {
        let Some(id) = self.silent.iter().find_map(|(id, silent)| sort(silent).then_some(*id)) else {
            return false;
        };
        if let Some(silent) = self.silent.remove(&id) {
            silent.evict.notify_one();
        }
        true
    }
}

impl PeerConnection {
    /// Has the oldest silent connection among those that are served make room.
    pub(super) fn claim_seat(&self) {
        self.peers.lock().evict(|silent| silent.seated);
    }

    pub(super) fn seated(&self) {
        if let Some(silent) = self.peers.lock().silent.get_mut(&self.id) {
            silent.seated = true;
        }
    }

    /// A request has come: from now on this one is not evicted.
    pub(super) fn asked(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            self.peers.lock().silent.remove(&self.id);
        }
    }

    /// Returns if others need the room.
    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut table = self.peers.lock();
        table.open -= 1;
        table.silent.remove(&self.id);
        if let Some(count) = table.of_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                table.of_peer.remove(&self.peer);
            }
        }
        drop(table);
        self.peers.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;

    use super::*;

    fn peers(connections: usize, connections_per_peer: usize) -> Arc<Peers> {
        Arc::new(Peers::new(&Limits { connections, connections_per_peer, ..Limits::default() }))
    }

    fn peer(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn is_evicted(connection: &PeerConnection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[test]
    fn a_peer_with_too_many_loses_its_own_oldest_silent_one() {
        let peers = peers(100, 2);
        let other = peers.admit(peer(9)).expect("room");
        let (first, second) = (peers.admit(peer(1)).expect("room"), peers.admit(peer(1)).expect("room"));
        first.asked();
        let third = peers.admit(peer(1)).expect("the second one goes");
        assert!(is_evicted(&second) && !is_evicted(&first) && !is_evicted(&other));
        drop(second);
        third.asked();
        assert!(peers.admit(peer(1)).is_none(), "both are in use");
        assert!(peers.admit(peer(2)).is_some(), "others are not concerned");
        drop(first);
        // The same address, as a listener for both families shows it.
        let mapped = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert!(peers.admit(mapped).is_some());
        assert!(peers.lock().of_peer.len() <= 2, "peers without connections are forgotten");
    }

    #[test]
    fn a_full_listener_accepts_as_long_as_somebody_is_silent() {
        let peers = peers(1, 1000);
        let mut open: Vec<_> = (0..peers.most).map(|_| peers.admit(peer(1)).expect("room")).collect();
        assert!(peers.vacancy().now_or_never().is_some());
        let late = peers.admit(peer(2)).expect("room is made");
        assert!(is_evicted(&open[0]) && !is_evicted(&open[1]));
        open.remove(0);
        open.iter().chain([&late]).for_each(PeerConnection::asked);
        let mut waiting = Box::pin(peers.vacancy());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(late);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn only_a_silent_connection_with_a_seat_gives_it_up() {
        let peers = peers(10, 10);
        let [waiting, silent, busy] = [1, 2, 3].map(|last| peers.admit(peer(last)).expect("room"));
        silent.seated();
        busy.seated();
        busy.asked();
        waiting.claim_seat();
        assert!(is_evicted(&silent) && !is_evicted(&busy) && !is_evicted(&waiting));
        waiting.claim_seat();
        assert!(!is_evicted(&busy));
    }
}
