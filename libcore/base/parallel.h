// Plain threads over a range that is divided into equal parts.
#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "base/error.h"

namespace mtl {

/// Calls work(part, begin, end) for `parts` >= 1 parts of [0, count), whose sizes differ by at most one, and waits for
/// all. Part 0 runs on the calling thread, every other part on its own thread. Rethrows the exception of the lowest
/// part that threw.
template <class Work>
void for_each_part(int parts, std::int64_t count, const Work& work) {
  require(parts >= 1, "for_each_part: ", parts, " parts");
  std::vector<std::exception_ptr> errors(parts);
  const auto bound = [&](int part) { return count / parts * part + count % parts * part / parts; };
  const auto run = [&](int part) {
    try {
      work(part, bound(part), bound(part + 1));
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int part = 1; part < parts; ++part) threads.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace mtl
