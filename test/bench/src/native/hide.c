// Hides what the processor has from the program that this library is loaded into before all else (LD_PRELOAD), so that
// libraries which choose their code by CPUID choose that of a lesser processor. TIR_HIDE says what: "avx512" for AVX-512,
// AMX and AVX-VNNI, "avx" for AVX and all that needs it, too.
//
// Linux lets CPUID fault in a thread and those it starts (arch_prctl(2), ARCH_SET_CPUID). The handler of the fault
// executes the instruction and takes bits from what it says. Leaves and bits are those of Intel's Software Developer's
// Manual, volume 2A, CPUID. Ends the program with status 77 where the processor or the system cannot do this.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, NOT_TO_BE_HAD = 77 };

struct registers {
  uint32_t a, b, c, d;
};

static int hides_avx;
static struct sigaction before;

static uint32_t bit(int n) { return (uint32_t)1 << n; }

static void hide(uint32_t leaf, uint32_t part, struct registers *r) {
  if (leaf == 7 && part == 0) {
    // F, DQ, IFMA, PF, ER, CD, BW, VL
    r->b &= ~(bit(16) | bit(17) | bit(21) | bit(26) | bit(27) | bit(28) | bit(30) | bit(31));
    // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    r->c &= ~(bit(1) | bit(6) | bit(11) | bit(12) | bit(14));
    // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
    r->d &= ~(bit(2) | bit(3) | bit(8) | bit(22) | bit(23) | bit(24) | bit(25));
    if (hides_avx) {
      r->b &= ~bit(5);              // AVX2
      r->c &= ~(bit(9) | bit(10));  // VAES, VPCLMULQDQ
    }
  }
  // All vectors and matrices that came after AVX-512.
  if (leaf == 7 && part != 0) memset(r, 0, sizeof *r);
  // FMA, AVX, F16C
  if (leaf == 1 && hides_avx) r->c &= ~(bit(12) | bit(28) | bit(29));
}

static int faults(int yes) { return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, !yes); }

static void cpuid(uint32_t leaf, uint32_t part, struct registers *r) {
  __asm__ volatile("cpuid" : "=a"(r->a), "=b"(r->b), "=c"(r->c), "=d"(r->d) : "a"(leaf), "c"(part));
}

static void handle(int signal, siginfo_t *info, void *context) {
  greg_t *of = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *at = (const unsigned char *)of[REG_RIP];
  (void)signal;
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) {
    // Another fault: back to it, with what was there before.
    sigaction(SIGSEGV, &before, NULL);
    return;
  }
  uint32_t leaf = (uint32_t)of[REG_RAX], part = (uint32_t)of[REG_RCX];
  struct registers r;
  faults(0);
  cpuid(leaf, part, &r);
  faults(1);
  hide(leaf, part, &r);
  of[REG_RAX] = r.a;
  of[REG_RBX] = r.b;
  of[REG_RCX] = r.c;
  of[REG_RDX] = r.d;
  of[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
  const char *what = getenv("TIR_HIDE");
  struct sigaction action;
  struct registers r;
  if (what == NULL) return;
  hides_avx = strcmp(what, "avx") == 0;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, &before) != 0 || faults(1) != 0) {
    fputs("this processor or system does not let CPUID fault\n", stderr);
    _exit(NOT_TO_BE_HAD);
  }
  cpuid(7, 0, &r);
  if (r.b & bit(16)) {
    fputs("CPUID does not fault, though the system says so\n", stderr);
    _exit(NOT_TO_BE_HAD);
  }
}
