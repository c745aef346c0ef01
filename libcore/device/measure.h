// Measures how long work on a device takes, to choose between equivalent computations.
#pragma once

#include <functional>

#include "device/stream.h"

namespace mtl {

/// Returns how long the commands from `body` take on the stream, in seconds: the minimum over several rounds. The first
/// round does not count, because a kernel is loaded at its first call. Waits for the stream. If `body` takes half a
/// second or more, calls it only once.
double seconds_of(Stream& stream, const std::function<void()>& body);

}  // namespace mtl
