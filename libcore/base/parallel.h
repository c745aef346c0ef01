// Divides a range into nearly equal parts and processes them on separate threads.
#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "base/error.h"

namespace mtl {

/// Divides [0, count) into `parts` >= 1 parts whose sizes differ by at most one, calls work(part, begin, end) for each,
/// and waits for all calls. Part 0 runs on the calling thread, each of the others on its own thread. If any calls
/// throw, rethrows the exception from the lowest such `part`.
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
