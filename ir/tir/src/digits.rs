//! Numbers for people.

/// A number with a comma before every three digits: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn three_digits_each() {
        let texts = [0, 999, 1000, 262_144, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "262,144", "1,234,567"]);
    }
}
