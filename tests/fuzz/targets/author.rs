#![no_main]

#[path = "../author.rs"]
mod author;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    author::author(data);
});
