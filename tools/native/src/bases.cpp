// Addresses that loops begin at are made opaque: loop strength reduction, which takes each apart into its terms and tries
// all ways to keep them in registers, then looks at short ones.

#include "llvm-c/Types.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace llvm;

// The terms of an address, but for constants: as loop strength reduction takes it apart.
static unsigned terms(const SCEV *address) {
  if (isa<SCEVConstant>(address))
    return 0;
  if (auto *sum = dyn_cast<SCEVAddExpr>(address)) {
    unsigned count = 0;
    for (const SCEV *part : sum->operands())
      count += terms(part);
    return count;
  }
  if (auto *steps = dyn_cast<SCEVAddRecExpr>(address))
    return terms(steps->getStart()) + 1;
  auto *product = dyn_cast<SCEVMulExpr>(address);
  if (product && product->getNumOperands() == 2 && isa<SCEVConstant>(product->getOperand(0)))
    return terms(product->getOperand(1));
  return 1;
}

// Whether a value is used in a loop within the one that it is computed in.
static bool enters_loop(const Instruction &value, const LoopInfo &loops) {
  const Loop *own = loops.getLoopFor(value.getParent());
  return any_of(value.uses(), [&](const Use &use) {
    auto *user = cast<Instruction>(use.getUser());
    auto *phi = dyn_cast<PHINode>(user);
    const Loop *loop = loops.getLoopFor(phi ? phi->getIncomingBlock(use) : user->getParent());
    return loop != own && (!own || own->contains(loop));
  });
}

static void opaque(Function &function, unsigned least) {
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  if (loops.empty())
    return;
  AssumptionCache assumptions(function);
  TargetLibraryInfoImpl known(function.getParent()->getTargetTriple());
  TargetLibraryInfo library(known, &function);
  ScalarEvolution evolution(function, library, assumptions, dominators, loops);
  // From outer loops to inner ones: what is opaque already is one term of what is computed of it.
  ReversePostOrderTraversal<Function *> blocks(&function);
  for (BasicBlock *block : blocks)
    for (Instruction &at : make_early_inc_range(*block)) {
      if (!isa<GetElementPtrInst>(at) || !at.getType()->isPointerTy() || !enters_loop(at, loops) ||
          terms(evolution.getSCEV(&at)) < least)
        continue;
      evolution.forgetValue(&at);
      Value *frozen = IRBuilder<>(at.getNextNode()).CreateFreeze(&at);
      at.replaceUsesWithIf(frozen, [&](Use &use) { return use.getUser() != frozen; });
    }
}

// Freezes the addresses of a module's functions that loops begin at, if they have so many terms. To LLVM a frozen value is
// one that it knows nothing of; machine code has no trace of it.
extern "C" void tir_opaque_bases(LLVMModuleRef module, unsigned least) {
  for (Function &function : *unwrap(module))
    if (!function.isDeclaration())
      opaque(function, least);
}
