// Measures how long work takes on a device, to choose between equivalent computations.
#pragma once

#include <functional>

#include "device/stream.h"

namespace mtl {

/// Returns how long the commands from `body` take on the stream, in seconds. This is the minimum over several rounds,
/// not counting the first, because a kernel is loaded when first called. If the first call takes half a second or more,
/// there are no further rounds. Waits for the stream.
double seconds_of(Stream& stream, const std::function<void()>& body);

/// Repeats `body` until it has kept the stream busy for 0.2 seconds, or has been called some 16,000 times. A GPU that
/// was idle raises its clocks meanwhile, so that the first measurement is comparable with later ones. Waits for the
/// stream.
void warm_up(Stream& stream, const std::function<void()>& body);

}  // namespace mtl
