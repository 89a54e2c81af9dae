//! What a function moves to and from far memory, in words: how much of it must move.

use std::fmt::Write;

use tir_machine::Report;

/// Bytes by cause: what must move, and what is moved beyond that.
pub(crate) fn moved(report: &Report) -> String {
    let far = report.spaces.first().map_or("", |far| far.name.as_str());
    let sum = |cause: &str| -> u64 {
        let own = report.causes.iter().filter(|own| own.cause == cause);
        let own = own.filter(|own| own.from == far || own.to == far);
        own.map(|own| own.bytes).sum()
    };
    let must = sum("compulsory");
    let others = [
        ("intermediate", "of tensors between operations"),
        ("reload", "read again"),
        ("spill", "written again"),
    ]
    .map(|(cause, text)| (sum(cause), text));
    let beyond: u64 = others.iter().map(|(bytes, _)| bytes).sum();
    let mut text = format!(
        "moves {} bytes to and from \"{far}\": {must} must (arguments, constants and results once), {beyond} beyond that, \
         {:.3} times as many",
        must + beyond,
        beyond as f64 / must.max(1) as f64
    );
    let mut between = ": ";
    for (bytes, what) in others.iter().filter(|(bytes, _)| *bytes > 0) {
        let _ = write!(text, "{between}{bytes} {what}");
        between = ", ";
    }
    text
}

#[cfg(test)]
mod tests {
    use tir_machine::{CauseReport, Report, SpaceReport};

    use super::moved;

    #[test]
    fn counts_what_is_moved_beyond_what_must() {
        let cause = |cause: &str, from: &str, to: &str, bytes| CauseReport {
            cause: cause.to_string(),
            from: from.to_string(),
            to: to.to_string(),
            bytes,
            transfers: 1,
        };
        let far = SpaceReport {
            name: "dram".to_string(),
            ..SpaceReport::default()
        };
        let report = Report {
            spaces: vec![far],
            causes: vec![
                cause("compulsory", "dram", "spm", 100),
                cause("compulsory", "spm", "dram", 100),
                cause("reload", "dram", "spm", 30),
                cause("intermediate", "spm", "dram", 20),
                cause("intermediate", "l2", "spm", 7),
            ],
            ..Report::default()
        };
        assert_eq!(
            moved(&report),
            "moves 250 bytes to and from \"dram\": 200 must (arguments, constants and results once), 50 beyond that, 0.250 times \
             as many: 20 of tensors between operations, 30 read again"
        );
    }
}
