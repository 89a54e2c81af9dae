//! How many times quicker networks are with what stays near, on a machine as OnSRAM was measured on.
//!
//! Without, every group of ops is a nest of its own and every tensor between two goes to far memory. Beside the project's
//! choice stand OnSRAM's static policy, with nests of one stage, and near memory without limit.

use std::path::PathBuf;

use tir_levels::ToAccel;

use super::{report, resized, with, without};
use crate::covers::{On, read};

/// The share of the speed-up that near memory without limit gives, at least, in the geometric mean.
const SHARE: f64 = 0.9;
/// KiB that are no limit.
const PLENTY: u64 = 256 << 10;

fn networks() -> Vec<PathBuf> {
    let made = ["squeezenet", "mobilenet_v2", "resnet18"].map(PathBuf::from);
    let models = ["cnn", "encoder"];
    let models = models.map(|n| crate::networks::root().join(format!("test/e2e/models/{n}.onnx")));
    let blocks = ["lstm", "resnext50", "nasrnn"].map(crate::covers::program);
    made.into_iter().chain(models).chain(blocks).collect()
}

/// The network with one policy, and nests of one stage.
fn alone(policy: &str) -> ToAccel {
    ToAccel {
        near_policy: policy.to_string(),
        resident: true,
        ..without()
    }
}

/// Prints a row for each network, and means.
///
/// # Errors
/// A file that cannot be read, a network that cannot be lowered or run.
pub(super) fn speedup(on: &On) -> Result<(), String> {
    println!("cycles without residency, and how many times quicker with it");
    println!(
        "{:<13} {:<8} {:>11} {:>8} {:>8} {:>8} {:>9} {:>7}",
        "network", "machine", "without", "cycles", "bytes", "static", "unlimited", "share"
    );
    for machine in on.machines(&["onsram"]) {
        let name = machine.file_stem().unwrap_or_default().display();
        let mut logs: Vec<[f64; 4]> = Vec::new();
        for file in on.files(networks) {
            let (network, module) = read(&file)?;
            let fails = |what: String| format!("{network} on {name}: {what}");
            let cycles = |machine, level| {
                let done = report(&module, machine, level).map_err(fails)?;
                Ok::<f64, String>(done.cycles as f64)
            };
            let before = cycles(&machine, without())?;
            let larger = resized(&machine, PLENTY)?;
            let unlimited = cycles(&larger, with("cycles"));
            let _ = std::fs::remove_file(&larger);
            let all = [
                before / cycles(&machine, with("cycles"))?,
                before / cycles(&machine, with("bytes"))?,
                before / cycles(&machine, alone("static"))?,
                before / unlimited?,
            ];
            println!(
                "{network:<13} {name:<8} {before:>11} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>7.2}",
                all[0],
                all[1],
                all[2],
                all[3],
                all[0] / all[3]
            );
            logs.push(all.map(f64::ln));
        }
        let mean = |which: usize| {
            let sum: f64 = logs.iter().map(|logs| logs[which]).sum();
            (sum / logs.len().max(1) as f64).exp()
        };
        println!(
            "geometric means on {name}: cycles {:.2}, bytes {:.2}, static {:.2}, unlimited {:.2}; share {:.2} (at least {SHARE} wanted)",
            mean(0),
            mean(1),
            mean(2),
            mean(3),
            mean(0) / mean(3)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{alone, report, with};
    use crate::covers::read;
    use crate::networks::root;

    #[test]
    fn a_convolutional_network_is_no_slower_than_with_the_static_policy() {
        tir_opt::stock().load();
        let onsram = root().join("test/e2e/machines/onsram.tir");
        let cnn = Path::new(&root()).join("test/e2e/models/cnn.onnx");
        let (_, network) = read(&cnn).unwrap();
        let cycles = |level| report(&network, &onsram, level).unwrap().cycles;
        let (own, fixed) = (cycles(with("cycles")), cycles(alone("static")));
        assert!(own <= fixed, "{own} {fixed}");
    }
}
