// What processors of x86 have, by their names: LLVM's C interface does not say it.

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TargetParser/X86TargetParser.h"

// Calls `take` with each feature of a processor; whether LLVM knows the name.
extern "C" bool tir_x86_features(const char *cpu, void (*take)(void *, const char *, size_t), void *to) {
  if (llvm::X86::parseArchX86(cpu) == llvm::X86::CK_None)
    return false;
  llvm::SmallVector<llvm::StringRef, 64> features;
  llvm::X86::getFeaturesForCPU(cpu, features);
  for (llvm::StringRef feature : features)
    take(to, feature.data(), feature.size());
  return true;
}
