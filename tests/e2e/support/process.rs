//! A script that runs in the foreground and says `ready`. It ends when this process does, however that happens: its
//! standard input is a pipe whose other end dies with us.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) struct Script {
    what: String,
    child: Child,
    lines: Mutex<Receiver<String>>,
    talk: Arc<Mutex<String>>,
}

impl Script {
    pub(super) fn spawn(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        // In a group of its own, so that Ctrl-C reaches it as the end of its input and it can clean up in peace.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let talk = Arc::new(Mutex::new(String::new()));
        let (mut stderr, heard) = (child.stderr.take().expect("stderr is piped"), Arc::clone(&talk));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut chunk) {
                heard.lock().expect("nobody panics here").push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        });
        Self { what, child, lines: Mutex::new(lines), talk }
    }

    /// Reads what the script prints until the line that begins with `word`, and gives the rest of that line.
    pub(super) fn expect(&self, word: &str, within: Duration) -> String {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let line = lines.recv_timeout(left);
            drop(lines);
            match line {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return rest.trim().to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} did not say `{word}` within {within:?}:\n{}", self.what, self.talk());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{} ended before it said `{word}`:\n{}", self.what, self.talk());
                }
            }
        }
    }

    pub(super) fn talk(&self) -> String {
        self.talk.lock().expect("nobody panics here").clone()
    }

    /// Waits for the script's own end.
    pub(super) fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Closes the script's standard input and waits until it has cleaned up.
    pub(super) fn finish(&mut self) -> Option<ExitStatus> {
        drop(self.child.stdin.take());
        self.wait(Duration::from_secs(60))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if self.finish().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
