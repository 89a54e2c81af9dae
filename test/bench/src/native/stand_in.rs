//! What kernels written by hand reached.

use super::convolution::Form;

/// Their tables; comments there say how they were measured.
const KERNELS: &str = include_str!("stand_ins.tsv");
const NETWORKS: &str = include_str!("stand_in_networks.tsv");

/// GFLOP/s of multiply-adds alone where they were measured.
const PEAK: f64 = 159.0;

/// The numbers of each line below the names of columns.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [f64; N]> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(|line| {
        let numbers: Option<Vec<f64>> = line.split('\t').map(|n| n.parse().ok()).collect();
        numbers?.try_into().ok()
    })
}

/// The share of the peak that the stand-in of a convolution had, if there is one.
pub(super) fn share(form: &Form) -> Option<f64> {
    let square = |[h, w]: [i64; 2]| (h == w).then_some(h as f64);
    let own = [
        square(form.kernel)?,
        form.strides.first().copied().unwrap_or(1) as f64,
        square(form.side)?,
        form.groups as f64,
        form.inputs as f64,
        form.outputs as f64,
    ];
    let found = rows::<7>(KERNELS).find(|row| row[..6] == own)?;
    Some(found[6] / PEAK)
}

/// The share of the peak that the stand-in of a network had, and its time as a part of ONNX Runtime's, for a network of
/// so many multiply-adds.
pub(super) fn network(macs: u64) -> Option<(f64, f64)> {
    let millions = macs as f64 / 1e6;
    let found = rows::<3>(NETWORKS).find(|row| (row[0] - millions).abs() < 0.01 * row[0])?;
    Some((found[1] / PEAK, found[2]))
}
