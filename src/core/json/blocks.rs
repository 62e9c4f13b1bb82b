//! JSON text in blocks of 64 bytes, with a bit for each: what is inside a text and what is structure is found for all of
//! them at once, without a branch for each byte.

use wide::u8x16;

const SIZE: usize = 64;
const LANES: usize = 16;

/// Where something stands in a block: the lowest bit is for its first byte.
type Bits = u64;

/// Where the brackets of a block are that are structure and not text.
struct Brackets {
    opening: Bits,
    closing: Bits,
}

/// What the next block must know of those before it.
#[derive(Default)]
struct Carry {
    /// All ones inside a text.
    text: Bits,
    /// One if the next byte is escaped.
    escape: Bits,
}

/// How many bytes the object or list has that the bytes begin with; `None` if it does not end.
pub(super) fn length_of_nested(bytes: &[u8]) -> Option<usize> {
    let (mut carry, mut depth, mut passed) = (Carry::default(), 0_u32, 0);
    for block in bytes.chunks(SIZE) {
        let Brackets { opening, closing } = carry.brackets(block);
        if opening | closing == 0 {
            passed += block.len();
            continue;
        }
        // Most blocks close less than what is open, so the order within them does not matter.
        if closing.count_ones() < depth {
            depth = depth + opening.count_ones() - closing.count_ones();
        } else {
            let mut left = opening | closing;
            while left != 0 {
                let lowest = left & left.wrapping_neg();
                left ^= lowest;
                if opening & lowest != 0 {
                    depth += 1;
                } else {
                    depth = depth.saturating_sub(1);
                }
                if depth == 0 {
                    return Some(passed + lowest.trailing_zeros() as usize + 1);
                }
            }
        }
        passed += block.len();
    }
    None
}

/// How many bytes the text has, with both its quotes, that the bytes begin with; `None` if it does not end.
pub(super) fn length_of_text(bytes: &[u8]) -> Option<usize> {
    let (mut carry, mut passed) = (Carry::default(), 1);
    for block in bytes.get(1..)?.chunks(SIZE) {
        let quotes = carry.quotes(&Lanes::of(block));
        if quotes != 0 {
            return Some(passed + quotes.trailing_zeros() as usize + 1);
        }
        passed += block.len();
    }
    None
}

/// How many bytes there are before the first that is a quote, a backslash or a control character.
pub(super) fn length_of_plain(bytes: &[u8]) -> usize {
    let (chunks, rest) = bytes.as_chunks::<LANES>();
    const QUOTE: u8x16 = u8x16::new([b'"'; LANES]);
    const BACKSLASH: u8x16 = u8x16::new([b'\\'; LANES]);
    const LAST_CONTROL: u8x16 = u8x16::new([0x1f; LANES]);
    for (index, chunk) in chunks.iter().enumerate() {
        let lanes = u8x16::new(*chunk);
        let marks = lanes.simd_eq(QUOTE) | lanes.simd_eq(BACKSLASH) | lanes.min(LAST_CONTROL).simd_eq(lanes);
        let bits = marks.to_bitmask();
        if bits != 0 {
            return index * LANES + bits.trailing_zeros() as usize;
        }
    }
    let is_mark = |byte: &u8| matches!(byte, b'"' | b'\\' | ..=0x1f);
    bytes.len() - rest.len() + rest.iter().position(is_mark).unwrap_or(rest.len())
}

impl Carry {
    fn brackets(&mut self, block: &[u8]) -> Brackets {
        // The two sorts of brackets differ in one bit.
        const CASE: u8 = b'{' ^ b'[';
        let lanes = Lanes::of(block);
        let inside = up_to_next(self.quotes(&lanes)) ^ self.text;
        self.text = if inside >> (SIZE - 1) == 0 { 0 } else { Bits::MAX };
        let lanes = lanes.with_bit(CASE);
        Brackets { opening: lanes.equal(b'{') & !inside, closing: lanes.equal(b'}') & !inside }
    }

    /// The quotes that begin or end a text.
    fn quotes(&mut self, lanes: &Lanes) -> Bits {
        lanes.equal(b'"') & !self.escaped(lanes.equal(b'\\'))
    }

    /// The bytes that follow a backslash which is not escaped itself.
    fn escaped(&mut self, backslashes: Bits) -> Bits {
        let mut escaped = std::mem::take(&mut self.escape);
        let mut left = backslashes & !escaped;
        while left != 0 {
            let lowest = left & left.wrapping_neg();
            let next = lowest << 1;
            self.escape = Bits::from(next == 0);
            escaped |= next;
            left &= !(lowest | next);
        }
        escaped
    }
}

/// Every bit from one that is set up to the next one that is, without that.
fn up_to_next(mut bits: Bits) -> Bits {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

struct Lanes([u8x16; SIZE / LANES]);

impl Lanes {
    /// A block that is too short is filled up with bytes that mean nothing.
    fn of(block: &[u8]) -> Self {
        let mut filled = [0; SIZE];
        let whole = block.first_chunk::<SIZE>().unwrap_or_else(|| {
            filled[..block.len()].copy_from_slice(block);
            &filled
        });
        let (lanes, _) = whole.as_chunks::<LANES>();
        Self(std::array::from_fn(|index| u8x16::new(lanes[index])))
    }

    fn equal(&self, byte: u8) -> Bits {
        let wanted = u8x16::splat(byte);
        let bits = |index: usize| Bits::from(self.0[index].simd_eq(wanted).to_bitmask());
        bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48
    }

    fn with_bit(&self, bit: u8) -> Self {
        Self(self.0.map(|lane| lane | u8x16::splat(bit)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, byte by byte.
    fn slowly(bytes: &[u8], is_text: bool) -> Option<usize> {
        let (mut depth, mut inside, mut escaped) = (0_u32, false, false);
        for (index, byte) in bytes.iter().enumerate() {
            let was_escaped = std::mem::take(&mut escaped);
            match byte {
                b'"' | b'\\' if was_escaped => {}
                b'\\' => escaped = true,
                b'"' => {
                    inside = !inside;
                    if is_text && !inside {
                        return Some(index + 1);
                    }
                }
                b'{' | b'[' if !inside => depth += 1,
                b'}' | b']' if !inside => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    proptest! {
        #[test]
        fn blocks_end_where_bytes_do(content in r#"[a{}\[\]"\\ \u{e9}]{0,300}"#) {
            let nested = format!("[{content}");
            prop_assert_eq!(length_of_nested(nested.as_bytes()), slowly(nested.as_bytes(), false));
            let text = format!("\"{content}");
            prop_assert_eq!(length_of_text(text.as_bytes()), slowly(text.as_bytes(), true));
        }

        #[test]
        fn plain_bytes_are_counted(plain in "[a-z\u{e9} ]{0,50}", mark in r#"["\\\u{0}\n\u{1f}]?"#, after in "[a\"]{0,20}") {
            let end = if mark.is_empty() { after.find('"').unwrap_or(after.len()) } else { 0 };
            let text = format!("{plain}{mark}{after}");
            prop_assert_eq!(length_of_plain(text.as_bytes()), plain.len() + end);
        }

        /// Long runs without a mark, and marks around the seams of blocks.
        #[test]
        fn seams_are_no_matter(before in 50_usize..80, slashes in 0_usize..5, after in 0_usize..130) {
            let text = format!("\"{}{}\"{}\"]]", "x".repeat(before), "\\".repeat(slashes), "y".repeat(after));
            prop_assert_eq!(length_of_text(text.as_bytes()), slowly(text.as_bytes(), true));
            let nested = format!("[[{text}");
            prop_assert_eq!(length_of_nested(nested.as_bytes()), slowly(nested.as_bytes(), false));
        }
    }

    #[test]
    fn what_does_not_end() {
        assert_eq!((length_of_nested(b""), length_of_text(b"")), (None, None));
        assert_eq!((length_of_nested(b"[[]"), length_of_text(b"\"\\\"")), (None, None));
        assert_eq!((length_of_nested(b"{}x"), length_of_text(b"\"\"x")), (Some(2), Some(2)));
    }
}
