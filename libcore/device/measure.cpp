#include "device/measure.h"

#include <algorithm>

#include "device/event.h"

namespace mtl {

namespace {

/// Returns how long `calls` calls of `body` take together, in seconds.
double seconds_of_calls(Stream& stream, const std::function<void()>& body, int calls) {
  Event begin(stream.device(), Event::Kind::time), end(stream.device(), Event::Kind::time);
  begin.record(stream);
  for (int call = 0; call < calls; ++call) body();
  end.record(stream);
  end.wait();
  return end.milliseconds_since(begin) / 1e3;
}

}  // namespace

double seconds_of(Stream& stream, const std::function<void()>& body) {
  constexpr int kRounds = 3, kCalls = 4;  // multiple calls hide how long the host takes to start one
  constexpr double kLong = 0.5;
  const auto run = [&](int calls) { return seconds_of_calls(stream, body, calls) / calls; };
  const double first = run(1);
  if (first >= kLong) return first;
  double best = run(kCalls);
  for (int round = 1; round < kRounds; ++round) best = std::min(best, run(kCalls));
  return best;
}

void warm_up(Stream& stream, const std::function<void()>& body) {
  constexpr double kSeconds = 0.2;
  constexpr int kMostAtOnce = 1 << 13;  // ends the loop if `body` does nothing
  double seconds = 0;
  for (int calls = 1; seconds < kSeconds && calls <= kMostAtOnce; calls *= 2)
    seconds += seconds_of_calls(stream, body, calls);
}

}  // namespace mtl
