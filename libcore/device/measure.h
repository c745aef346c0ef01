// Measures how long work on a device takes, to choose between equivalent computations.
#pragma once

#include <functional>

#include "device/stream.h"

namespace mtl {

/// Returns the time that the commands of `body` take on the stream, in seconds: the minimum of several rounds. The
/// rounds follow a round that is not counted, because the first call of a kernel loads the kernel. Waits for the
/// stream. If `body` takes half a second or more, calls it only once.
double seconds_of(Stream& stream, const std::function<void()>& body);

}  // namespace mtl
