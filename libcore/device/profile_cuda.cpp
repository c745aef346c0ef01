// Calls NVTX and CUPTI. NVTX is header-only and does nothing without nsys. CUPTI is opened for the first profile.
#include <cuda_profiler_api.h>
#include <cupti.h>
#include <cxxabi.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/str.h"
#include "device/check_cuda.h"
#include "device/cuda_library.h"
#include "device/cuda_profile.h"

namespace mtl::cuda {

namespace {

/// CUPTI's activity interface.
struct Cupti {
  CudaLibrary library{{"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"},
                      "records the times of kernels",
                      "install CUPTI 13 of the CUDA toolkit, or add its folder to LD_LIBRARY_PATH"};
  decltype(&::cuptiActivityRegisterCallbacks) set_callbacks = library["cuptiActivityRegisterCallbacks"];
  decltype(&::cuptiActivityEnable) enable = library["cuptiActivityEnable"];
  decltype(&::cuptiActivityDisable) disable = library["cuptiActivityDisable"];
  decltype(&::cuptiActivityFlushAll) flush = library["cuptiActivityFlushAll"];
  decltype(&::cuptiActivityGetNextRecord) next = library["cuptiActivityGetNextRecord"];
  decltype(&::cuptiActivityPushExternalCorrelationId) push = library["cuptiActivityPushExternalCorrelationId"];
  decltype(&::cuptiActivityPopExternalCorrelationId) pop = library["cuptiActivityPopExternalCorrelationId"];
  decltype(&::cuptiGetTimestamp) now = library["cuptiGetTimestamp"];
  decltype(&::cuptiGetResultString) text_of = library["cuptiGetResultString"];
};

/// State shared with CUPTI's callbacks, which take no user argument.
struct Records {
  std::optional<Cupti> cupti;
  bool active = false;
  std::uint64_t began = 0;           // nanoseconds
  std::mutex mutex;                  // CUPTI delivers buffers on a separate thread
  std::map<std::uint32_t, int> ops;  // by the launch's CUPTI correlation ID
  std::vector<std::pair<std::uint32_t, ProfileKernel>> kernels;
};

Records& records() {
  static Records records;
  return records;
}

std::string demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return short_kernel_name(text == nullptr ? name : text.get());
}

constexpr std::size_t kBufferBytes = 1 << 20;

void CUPTIAPI provide_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void add(Records& all, const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto* link = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
    all.ops[link->correlationId] = static_cast<int>(link->externalId);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    const auto ms = [&](std::uint64_t time) { return (double(time) - double(all.began)) * 1e-6; };
    all.kernels.push_back({kernel->correlationId,
                           {.name = demangle(kernel->name), .begin_ms = ms(kernel->start), .end_ms = ms(kernel->end)}});
  }
}

void CUPTIAPI consume_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  CUpti_Activity* record = nullptr;
  while (all.cupti->next(buffer, valid, &record) == CUPTI_SUCCESS) add(all, record);
  std::free(buffer);
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

/// Returns "" if CUPTI records, otherwise the reason it cannot. For example, another profiler may be using it.
std::string start_cupti(Records& all) {
  if (!all.cupti) all.cupti.emplace();
  const Cupti& cupti = *all.cupti;
  CUptiResult result = cupti.set_callbacks(provide_buffer, consume_buffer);
  for (CUpti_ActivityKind kind : kKinds) {
    if (result == CUPTI_SUCCESS) result = cupti.enable(kind);
  }
  if (result == CUPTI_SUCCESS) result = cupti.now(&all.began);
  if (result == CUPTI_SUCCESS) return "";
  const char* text = "unknown";
  cupti.text_of(result, &text);
  return cat("CUPTI reports an error: ", text);
}

}  // namespace

void begin_range(const std::string& name, int op) {
  nvtxRangePushA(name.c_str());
  if (Records& all = records(); all.active && op >= 0)
    all.cupti->push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, static_cast<std::uint64_t>(op));
}

void end_range(bool is_op) {
  std::uint64_t last = 0;
  if (Records& all = records(); all.active && is_op) all.cupti->pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  nvtxRangePop();
}

std::string start_kernel_records() {
  check(cudaDeviceSynchronize(), "the wait before a profile");
  Records& all = records();
  std::string why_not;
  try {
    why_not = start_cupti(all);
  } catch (const Error& error) {  // CUPTI is missing
    why_not = error.what();
  }
  all.active = why_not.empty();
  check(cudaProfilerStart(), "cudaProfilerStart");
  return why_not;
}

std::vector<ProfileKernel> stop_kernel_records() {
  check(cudaDeviceSynchronize(), "the wait after a profile");
  check(cudaProfilerStop(), "cudaProfilerStop");
  Records& all = records();
  if (!std::exchange(all.active, false)) return {};
  all.cupti->flush(0);
  for (CUpti_ActivityKind kind : kKinds) all.cupti->disable(kind);
  const std::lock_guard lock(all.mutex);
  std::vector<ProfileKernel> out;
  for (auto& [launch, kernel] : all.kernels) {
    if (const auto op = all.ops.find(launch); op != all.ops.end()) kernel.entry = op->second;
    out.push_back(std::move(kernel));
  }
  all.kernels.clear();
  all.ops.clear();
  std::sort(out.begin(), out.end(),
            [](const ProfileKernel& a, const ProfileKernel& b) { return a.begin_ms < b.begin_ms; });
  return out;
}

}  // namespace mtl::cuda
