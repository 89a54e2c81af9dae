//! What the programs run on.

/// Rows of the argument that programs write, all of 16 elements of 4 bytes.
pub(crate) const ROWS: usize = 512;

/// What all programs run on. Near memories are larger than any program needs.
pub(crate) const MACHINE: &str = r#"
!M = memref<512x16xf32, "dram">
!V = tensor<16xf32>
#n = affine_map<(n) -> (n)>
accel.machine @two {
  accel.space @dram {bytes = 131072, align = 64}
  accel.space @spm {bytes = 65536, align = 64}
  accel.space @acc {bytes = 65536, align = 128}
  accel.dma @load {from = @dram, to = @spm, bytes_per_cycle = 8, latency = 10, dims = 2, queue = 3, granule = 4}
  accel.dma @store {from = @spm, to = @dram, bytes_per_cycle = 8, latency = 30, dims = 2, queue = 2, granule = 4}
  accel.dma @fill {from = @dram, to = @acc, bytes_per_cycle = 4, latency = 20, dims = 2, queue = 3, granule = 4}
  accel.dma @drain {from = @acc, to = @dram, bytes_per_cycle = 4, latency = 20, dims = 2, queue = 2, granule = 4}
  UNIT
}
"#;
