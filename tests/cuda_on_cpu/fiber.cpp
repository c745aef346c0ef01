// Uses ucontext for the first switch to a fiber's stack. Later switches use _setjmp and _longjmp, which unlike
// swapcontext make no system calls.
#include "tests/cuda_on_cpu/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "base/error.h"

namespace mtl::emulated {

namespace {
constexpr std::size_t kStack = 128 << 10, kGuard = 4096;
}

Fiber::Fiber() {
  stack_ = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(stack_ != MAP_FAILED, "no memory for a fiber's stack");
  ::mprotect(stack_, kGuard, PROT_NONE);
  ::getcontext(&first_);
  first_.uc_stack.ss_sp = stack_;
  first_.uc_stack.ss_size = kStack;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&first_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

Fiber::~Fiber() { ::munmap(stack_, kStack); }

void Fiber::enter(unsigned high, unsigned low) { reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low)->loop(); }

void Fiber::loop() {
  for (;;) {
    try {
      (*body_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    ended_ = true;
    suspend();
  }
}

bool Fiber::resume() {
  ended_ = false;
  if (_setjmp(caller_) == 0) {
    if (entered_) _longjmp(inside_, 1);
    entered_ = true;
    ::swapcontext(&caller_context_, &first_);  // returns by _longjmp
  }
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return ended_;
}

void Fiber::suspend() {
  if (_setjmp(inside_) == 0) _longjmp(caller_, 1);
}

}  // namespace mtl::emulated
