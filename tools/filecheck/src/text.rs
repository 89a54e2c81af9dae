//! Canonical text: line ends and horizontal white space folded, with the way back to the original.

/// Folds `\r\n` to `\n` and, unless `strict`, each run of spaces and tabs to one space.
pub(crate) fn canonical(text: &[u8], strict: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    walk(text, strict, |_, byte| {
        out.push(byte);
        true
    });
    out
}

/// The offset in `text` of the byte at `offset` of its canonical form.
pub(crate) fn original_offset(text: &[u8], strict: bool, offset: usize) -> usize {
    let mut seen = 0;
    let mut at = text.len();
    walk(text, strict, |i, _| {
        if seen == offset {
            at = i;
            return false;
        }
        seen += 1;
        true
    });
    at
}

/// Calls `emit(original offset, byte)` for each canonical byte until it returns false.
fn walk(text: &[u8], strict: bool, mut emit: impl FnMut(usize, u8) -> bool) {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let mut i = 0;
    while i < text.len() {
        let byte = text[i];
        let start = i;
        i += 1;
        if byte == b'\r' && text.get(i) == Some(&b'\n') {
            continue;
        }
        let mut shown = byte;
        if !strict && blank(Some(&byte)) {
            shown = b' ';
            while blank(text.get(i)) {
                i += 1;
            }
        }
        if !emit(start, shown) {
            return;
        }
    }
}

/// The first occurrence of `needle`, which is short.
pub(crate) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    text.windows(needle.len()).position(|w| w == needle)
}

/// Line ends in `text`; `\r\n` and `\n\r` count once, a lone `\r` counts too.
pub(crate) fn newlines(text: &[u8]) -> usize {
    let mut count = 0;
    let mut i = 0;
    while i < text.len() {
        if matches!(text[i], b'\n' | b'\r') {
            count += 1;
            let next = text.get(i + 1).copied();
            if matches!(next, Some(b'\n' | b'\r')) && next != Some(text[i]) {
                i += 1;
            }
        }
        i += 1;
    }
    count
}

/// The number of the line that holds `offset`, from 1.
pub(crate) fn line_number(text: &[u8], offset: usize) -> usize {
    1 + text[..offset.min(text.len())]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_and_maps_back() {
        let text = b"a \t b\r\nc\td";
        assert_eq!(canonical(text, false), b"a b\nc d");
        assert_eq!(canonical(text, true), b"a \t b\nc\td");
        assert_eq!(original_offset(text, false, 2), 4);
        assert_eq!(original_offset(text, false, 3), 6);
        assert_eq!(original_offset(text, false, 99), text.len());
    }

    #[test]
    fn counts_line_ends() {
        assert_eq!(newlines(b"a\nb\n"), 2);
        assert_eq!(newlines(b"a\r\nb\rc"), 2);
        assert_eq!(newlines(b"\n\n"), 2);
    }
}
