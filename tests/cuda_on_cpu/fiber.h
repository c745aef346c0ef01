// A function with a stack of its own that can be left in the middle and entered again.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <exception>
#include <functional>

namespace mtl::emulated {

/// Runs `body` again and again, a call of it between start() and the first resume() that returns true.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  /// Sets what the next resume() begins.
  void start(const std::function<void()>* body) { body_ = body; }
  /// Enters the body, where it was left last; true when it has ended. Rethrows what it threw.
  bool resume();
  /// From inside the body: back to resume(), which returns false.
  void leave();

 private:
  static void enter(unsigned high, unsigned low);
  void loop();

  const std::function<void()>* body_ = nullptr;
  bool ended_ = true, entered_ = false;
  std::exception_ptr error_;
  void* stack_ = nullptr;
  ucontext_t first_{}, caller_context_{};
  jmp_buf inside_, caller_;
};

}  // namespace mtl::emulated
