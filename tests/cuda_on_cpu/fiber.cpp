// Switches stacks in a few instructions, because an emulated kernel switches millions of times.
#include "tests/cuda_on_cpu/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "base/error.h"

// mtl_switch_stacks(save, to): pushes the registers that a call preserves, stores the stack pointer in *save, and
// continues at `to`, a stack pointer that it stored before. mtl_enter_fiber: calls %r13 with the argument %r12.
extern "C" void mtl_switch_stacks(void** save, void* to);
extern "C" void mtl_enter_fiber();
#if !defined(__x86_64__)
#error "tests/cuda_on_cpu switches stacks on x86-64 only"
#endif
asm(R"(
.text
.type mtl_switch_stacks, @function
mtl_switch_stacks:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size mtl_switch_stacks, . - mtl_switch_stacks
.type mtl_enter_fiber, @function
mtl_enter_fiber:
  mov %r12, %rdi
  call *%r13
  ud2
.size mtl_enter_fiber, . - mtl_enter_fiber
)");

namespace mtl::emulated {

namespace {
constexpr std::size_t kStack = 192 << 10, kGuard = 4096;

/// Bytes that a new fiber leaves unused at its stack's end. Stacks that all began at the same offset in a page would
/// evict each other from the caches.
std::size_t next_offset() {
  static std::size_t offset = 0;
  offset = (offset + 1088) % (64 << 10);
  return offset;
}
}  // namespace

Fiber::Fiber() {
  void* memory = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "no memory for a fiber's stack");
  memory_ = static_cast<std::byte*>(memory);
  ::mprotect(memory_, kGuard, PROT_NONE);
  auto** top = reinterpret_cast<void**>(memory_ + kStack - next_offset());  // a multiple of 16
  *--top = nullptr;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&mtl_enter_fiber);  // the switch returns there, with %rsp a multiple of 16 after it
  *--top = nullptr;                                    // %rbp
  *--top = nullptr;                                    // %rbx
  *--top = this;                                       // %r12
  *--top = reinterpret_cast<void*>(&Fiber::loop);      // %r13
  *--top = nullptr;                                    // %r14
  *--top = nullptr;                                    // %r15
  inside_ = top;
}

Fiber::~Fiber() { ::munmap(memory_, kStack); }

void Fiber::loop(Fiber* fiber) {
  for (;;) {
    try {
      (*fiber->body_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    fiber->suspend();
  }
}

void Fiber::resume() {
  mtl_switch_stacks(&caller_, inside_);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Fiber::suspend() { mtl_switch_stacks(&inside_, caller_); }
void Fiber::suspend_to(Fiber& next) { mtl_switch_stacks(&inside_, next.inside_); }

}  // namespace mtl::emulated
