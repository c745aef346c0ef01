// Measures the time of work on a device, to choose between equivalent computations.
#pragma once

#include <functional>

#include "device/stream.h"

namespace mtl {

/// Returns the seconds that the commands of `body` take on the stream: the least of several rounds, after one that is
/// not counted because the first call of a kernel loads it. Waits for the stream. Work of half a second or more runs
/// once.
double seconds_of(Stream& stream, const std::function<void()>& body);

}  // namespace mtl
