// A function with its own stack that can be suspended and resumed.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace mtl::emulated {

/// Runs a body, which can be restarted. After start(), the first resume() or suspend_to() calls the body.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  /// Sets the body that the next resume() calls.
  void start(const std::function<void()>* body) { body_ = body; }
  /// Calls the body, or continues it from where it was suspended. Returns when this body, or that of a fiber it was
  /// suspended to, calls suspend() or has ended. Rethrows the exception that ended it. Must not be called from a body.
  void resume();
  /// Suspends the body, so that resume() returns. Must be called from the body.
  void suspend();
  /// Suspends the body and calls or continues that of `next`. Must be called from the body.
  void suspend_to(Fiber& next);

 private:
  static void loop(Fiber* fiber);

  const std::function<void()>* body_ = nullptr;
  std::byte* memory_ = nullptr;
  void* inside_ = nullptr;  // the fiber's stack pointer
  // Of the running fiber: the stack pointer of who resumed it, and the exception that ended it.
  inline static void* caller_ = nullptr;
  inline static std::exception_ptr error_;
};

}  // namespace mtl::emulated
