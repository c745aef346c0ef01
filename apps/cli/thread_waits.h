// Sets how OpenMP threads wait for work. Programs that compute call this first in main().
#pragma once

namespace mtl {

/// Makes waiting threads sleep after about ten microseconds. By default, libgomp's threads spin for milliseconds. On
/// busy cores, a spinning thread takes the core from the very thread it is waiting for, and a training step takes
/// several times as long. libgomp reads its settings when it is loaded, so this restarts the program with
/// GOMP_SPINCOUNT set. Does nothing if GOMP_SPINCOUNT or OMP_WAIT_POLICY is already set.
void keep_thread_waits_short(char** argv);

}  // namespace mtl
