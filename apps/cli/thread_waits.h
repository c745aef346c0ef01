// The way in which OpenMP's threads wait for work. A program that computes with them calls this first.
#pragma once

namespace mtl {

/// Lets waiting threads sleep after some ten microseconds. libgomp's own choice is to spin for milliseconds: where
/// cores are busy with other work too, a thread that waits then keeps the core from the one it waits for, and a
/// training step takes several times as long. libgomp reads its settings when it is loaded, so the program is started
/// again with GOMP_SPINCOUNT set; where that or OMP_WAIT_POLICY is set already, nothing happens.
void keep_thread_waits_short(char** argv);

}  // namespace mtl
