// Sets how OpenMP threads wait for work. Programs that compute call this function first in main().
#pragma once

namespace mtl {

/// Makes waiting threads sleep after about ten microseconds. By default, libgomp threads spin for milliseconds. On busy
/// cores, a spinning thread then occupies the core that the thread it is waiting for needs, and a training step takes
/// several times as long. libgomp reads its settings when it is loaded, so this function restarts the program with
/// GOMP_SPINCOUNT set. Does nothing if GOMP_SPINCOUNT or OMP_WAIT_POLICY is already set.
void keep_thread_waits_short(char** argv);

}  // namespace mtl
