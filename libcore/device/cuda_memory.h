// Memory on the cuda device. memory_cuda.cpp calls the CUDA runtime, no_cuda.cpp rejects all calls, and tests/mirror
// emulates the device.
//
// Copies declared here wait for all streams, and are complete on return. cuda_stream.h declares copies on a stream.
#pragma once

#include <cstddef>

namespace mtl::cuda {

/// Allocates zeroed memory with 256-byte alignment, as cudaMalloc() does. Throws Error if the build has no CUDA or
/// there is not enough memory.
std::byte* allocate(std::size_t bytes);
void release(std::byte* memory) noexcept;

/// Like allocate(), but allocates pinned host memory, with 64-byte alignment. The device can copy to and from pinned
/// memory while the host continues.
std::byte* allocate_pinned(std::size_t bytes);
void release_pinned(std::byte* memory) noexcept;

void copy_from_host(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);

}  // namespace mtl::cuda
