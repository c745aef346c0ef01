// A function with its own stack that can be suspended and resumed.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace mtl::emulated {

/// Runs a body, which can be restarted. After start(), the first resume() calls the body. The body has ended when
/// resume() returns true.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  /// Sets the body that the next resume() calls.
  void start(const std::function<void()>* body) { body_ = body; }
  /// Calls the body, or continues it from where it was suspended. Returns true if the body has ended. Rethrows the
  /// body's exception.
  bool resume();
  /// Suspends the body, so that resume() returns false. Must be called from the body.
  void suspend();

 private:
  static void loop(Fiber* fiber);

  const std::function<void()>* body_ = nullptr;
  bool ended_ = true;
  std::exception_ptr error_;
  std::byte* memory_ = nullptr;
  void *inside_ = nullptr, *caller_ = nullptr;  // the stack pointers of the fiber and of who resumed it
};

}  // namespace mtl::emulated
