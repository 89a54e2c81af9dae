//! "Did you mean": the known word that is closest to an unknown one.

/// The candidate that is fewest edits away from `word`, if it is near enough to be meant; of
/// several the first.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(word, candidates).into_iter().next()
}

/// The candidates that are near enough to `word` to be meant, fewest edits first; of as many edits in their order.
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let limit = word.chars().count().div_ceil(3).min(4);
    let all = candidates.into_iter();
    let mut all: Vec<(usize, &str)> = all
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .collect();
    all.sort_by_key(|(edits, _)| *edits);
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The number of insertions, deletions, replacements and swaps of neighbours (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 4 {
        return usize::MAX;
    }
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn near_words_are_found() {
        let known = ["canonicalize", "cse", "dce"];
        assert_eq!(closest("cannonicalise", known), Some("canonicalize"));
        assert_eq!(closest("dec", known), Some("dce"));
        assert_eq!(closest("tile", known), None);
    }
}
