//! The line between Writ and the API server. It can break: every connection on it ends, and the next one works.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use crate::support::Cluster;

pub(super) struct Line {
    address: String,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    open: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
}

impl Line {
    /// A way to the API server of a local control plane.
    pub(super) fn lay(cluster: &Cluster) -> Self {
        let ports = std::fs::read_to_string(cluster.folder().expect("a local control plane").join("ports"));
        let ports = ports.expect("the ports of the control plane");
        let port = ports.lines().find_map(|line| line.strip_prefix("apiserver=")).expect("the API server's port");
        let server = format!("127.0.0.1:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(State::default());
        let accepting = spawn({
            let state = state.clone();
            move || accept(&listener, &server, &state)
        });
        Self { address, state, accepting: Some(accepting) }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn break_all(&self) {
        self.state.open().drain(..).for_each(|connection| drop(connection.shutdown(Shutdown::Both)));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(&self.address));
        self.break_all();
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

impl State {
    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, server: &str, state: &State) {
    for connection in listener.incoming() {
        if state.closed.load(Ordering::Acquire) {
            return;
        }
        // While the API server is away, nobody answers here either.
        let Ok(near) = connection else { continue };
        let Ok(far) = TcpStream::connect(server) else { continue };
        let (Ok(near_end), Ok(far_end)) = (near.try_clone(), far.try_clone()) else { continue };
        let mut open = state.open();
        open.retain(|connection| connection.peer_addr().is_ok());
        open.extend([&near, &far].into_iter().filter_map(|end| end.try_clone().ok()));
        drop(open);
        // Each ends with its connection.
        spawn(move || pump(&near, &far));
        spawn(move || pump(&far_end, &near_end));
    }
}

/// Carries everything over until one end is closed, then closes the other.
fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
