#include "device/measure.h"

#include <algorithm>

#include "device/event.h"

namespace mtl {

double seconds_of(Stream& stream, const std::function<void()>& body) {
  constexpr int kRounds = 3, kCalls = 4;  // multiple calls hide how long the host takes to start one
  constexpr double kLong = 0.5;
  Event begin(stream.device(), Event::Kind::time), end(stream.device(), Event::Kind::time);
  const auto run = [&](int calls) {
    begin.record(stream);
    for (int call = 0; call < calls; ++call) body();
    end.record(stream);
    end.wait();
    return end.milliseconds_since(begin) / 1e3 / calls;
  };
  const double first = run(1);
  if (first >= kLong) return first;
  double best = run(kCalls);
  for (int round = 1; round < kRounds; ++round) best = std::min(best, run(kCalls));
  return best;
}

}  // namespace mtl
