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
    /// What some of them have beyond, which code is made with if they do: LLVM's names.
    pub beyond: &'static [&'static str],
}

macro_rules! file {
    ($name:literal for $has:literal $($beyond:literal)*) => {
        File {
            file: $name,
            text: include_str!(concat!("../../../test/e2e/machines/", $name)),
            has: $has,
            beyond: &[$($beyond),*],
        }
    };
}

/// 32 registers of 64 bytes.
pub const AVX512: File = file!("cpu.tir" for "AVX-512 (x86-64-v4)" "avx512vnni");
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

impl File {
    /// What the processor that this program runs on has of what is beyond the file: `+avx512vnni`.
    pub fn features(&self) -> String {
        let has = |name: &str| match name {
            #[cfg(target_arch = "x86_64")]
            "avx512vnni" => std::arch::is_x86_feature_detected!("avx512vnni"),
            _ => false,
        };
        let found = self.beyond.iter().filter(|name| has(name));
        let found: Vec<String> = found.map(|name| format!("+{name}")).collect();
        found.join(",")
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, has, features) = (self.file, self.has, self.features());
        let and = if features.is_empty() { "" } else { " and " };
        write!(
            f,
            "machine {HOST}: this processor has {has}{and}{features}, planned with {file}"
        )
    }
}
