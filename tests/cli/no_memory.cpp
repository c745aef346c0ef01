// A library preloaded into one of a test's ranks: once the file MTL_TEST_NO_MEMORY exists, one allocation fails.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
  static const char* const path = std::getenv("MTL_TEST_NO_MEMORY");
  static std::atomic<bool> has_failed{false};
  if (path != nullptr && size >= 64 && !has_failed && ::access(path, F_OK) == 0 && !has_failed.exchange(true))
    throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
