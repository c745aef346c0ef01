// The last step in every operator: calls its implementation on the stream's device. For kernels/*.cpp only.
#pragma once

#include <optional>
#include <type_traits>

#include "kernels/cpu.h"
#include "kernels/cuda.h"
#include "kernels/operator_record.h"

namespace mtl {

/// Calls the implementation. Does nothing on meta. A profiled stream records the call, with the FLOPs and bytes counted
/// just before it.
template <auto on_cpu, auto on_cuda, class... Args>
void run(Stream& stream, const Args&... args) {
  static_assert(std::is_same_v<decltype(on_cpu), decltype(on_cuda)>);
  std::optional<ProfileRange> record;
  if (stream.profile() != nullptr) [[unlikely]]
    record.emplace(stream, operator_entry(function_name<on_cpu>(), args...));
  if (stream.device() == Device::cpu) [[likely]]
    return on_cpu(stream, args...);
  if (!stream.is_meta()) on_cuda(stream, args...);
}

/// Allocates scratch memory of NAME_work() bytes for the implementation on the stream's device or, on meta, on the
/// device that it plans for (stream.target()). On cuda, the memory is aligned to 256 bytes, as cuBLASLt's workspace
/// must be.
template <auto on_cpu, auto on_cuda, class... Args>
Tensor make_work(const Stream& stream, Arena& scratch, const Args&... args) {
  static_assert(std::is_same_v<decltype(on_cpu), decltype(on_cuda)>);
  std::size_t bytes = 0, align = 64;
  if (stream.target() == Device::cpu) {
    bytes = on_cpu(stream, args...);
  } else {
    bytes = on_cuda(stream, args...);
    align = 256;
  }
  return scratch.make(DType::u8, {static_cast<std::int64_t>(bytes)}, align);
}

/// Allocates scratch memory to add up `sums` columns over `rows` rows of `width` elements, or none unless `wanted`.
inline Tensor make_row_sums(const Stream& stream, Arena& scratch, bool wanted, std::int64_t rows, std::int64_t width,
                            std::int64_t sums) {
  if (!wanted) return {};
  return make_work<cpu::row_sums_work, cuda::row_sums_work>(stream, scratch, rows, width, sums);
}

}  // namespace mtl
