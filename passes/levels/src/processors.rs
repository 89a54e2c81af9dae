//! Machine files of processors that are part of the program, and which of them the processor is that it runs on.

use std::fmt;

/// The name that stands for the machine file of the processor which the program runs on.
pub const HOST: &str = "host";

/// A machine file of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// Its name.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// What processors have that it is for.
    pub has: &'static str,
}

macro_rules! file {
    ($name:literal for $has:literal) => {
        File {
            file: $name,
            text: include_str!(concat!("../../../test/e2e/machines/", $name)),
            has: $has,
        }
    };
}

/// 32 registers of 64 bytes.
pub const AVX512: File = file!("cpu.tir" for "AVX-512 (x86-64-v4)");
/// 16 registers of 32 bytes.
pub const AVX2: File = file!("cpu-avx2.tir" for "AVX2 (x86-64-v3)");
/// 16 registers of 16 bytes, of a processor of any kind.
pub const PORTABLE: File = file!("cpu-portable.tir" for "vectors of 16 bytes");

/// The machine file of the processor that this program runs on: of those that it can run, the one with the largest
/// registers.
pub fn host() -> File {
    #[cfg(target_arch = "x86_64")]
    {
        // The levels of the System V ABI's supplement for AMD64, table 3.1.
        macro_rules! all { ($($name:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($name))* } }
        let v3 = all!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
        let v4 = all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
        match (v3, v4) {
            (true, true) => return AVX512,
            (true, false) => return AVX2,
            (false, _) => {}
        }
    }
    PORTABLE
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, has) = (self.file, self.has);
        write!(
            f,
            "machine {HOST}: this processor has {has}, planned with {file}"
        )
    }
}
