//! How stages begin: of what they load first, what others compute beside.

/// How a stage begins.
pub(super) struct Begin {
    /// Cycles of its first loads.
    pub(super) loads: i64,
    /// Those of its units in a trip of all loops.
    pub(super) trip: i64,
}

/// Of first loads, those beside which others compute: what a stage reads is loaded behind what those read that compute for
/// it, and these begin as soon as theirs is there. Stages that compute for others come behind them.
pub(super) fn hidden(begins: &[Begin]) -> i64 {
    let (mut loaded, mut done, mut work) = (0i64, 0i64, 0i64);
    for Begin { loads, trip } in begins.iter().rev() {
        loaded = loaded.saturating_add(*loads);
        done = done.max(loaded).saturating_add(*trip);
        work = work.saturating_add(*trip);
    }
    loaded.saturating_sub(done.saturating_sub(work)).max(0)
}

#[cfg(test)]
mod tests {
    use super::{Begin, hidden};

    #[test]
    fn loads_are_hidden_as_long_as_others_compute() {
        let begin = |loads, trip| Begin { loads, trip };
        // What computes for others comes last: its own loads are waited for.
        assert_eq!(hidden(&[begin(100, 50)]), 0);
        assert_eq!(hidden(&[begin(30, 10), begin(100, 50)]), 30);
        assert_eq!(hidden(&[begin(80, 10), begin(100, 50)]), 50);
        // Each begins when what it reads is loaded and what computes for it is done.
        assert_eq!(hidden(&[begin(40, 1), begin(40, 20), begin(100, 50)]), 70);
        assert_eq!(hidden(&[]), 0);
    }
}
