// Compiles cuDNN's attention plans. This machine need not have the GPUs, because cuDNN accepts GPU properties as JSON.
// Prints one line per plan; exits with 1 if a plan fails. Run by gpu/cudnn_plans_long.sh.
#include <cstdio>

#include "kernels/attention_cudnn_cuda.h"
#include "kernels/attention_variant.h"

using namespace mtl;

namespace {

/// Returns the properties of an A100, H100 or B200 in cuDNN's format. cuDNN 9.28 requires memoryBusWidth, too.
std::string properties_of(int version) {
  const int multiprocessors = version == 800   ? 108
                              : version == 900 ? 132
                                               : 148,
            shared_memory = version == 800 ? 166912 : 232448;
  return cat(R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
             R"("multiProcessorCount":)", multiprocessors, R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)",
             R"("maxSharedMemoryPerBlockOptin":)", shared_memory, R"(,"reservedSharedMemoryPerBlock":1024,)",
             R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)",
             R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":80000000000,)",
             R"("smClockRateKHz":1500000,"memClockRateKHz":2000000,"memoryBusWidth":5120,"l2CacheSize":50000000,)",
             R"("cudaDeviceId":0,"deviceVer":)", version, R"(,"driverVer":13000,"deviceName":"a GPU"})");
}

bool compile(const cuda::Cudnn& lib, int version, DType dtype, std::int64_t groups, std::int64_t heads,
             std::int64_t dim) {
  AttentionInput in;
  in.qkv = unpack_qkv({nullptr, dtype, {2, 1000, groups, heads + 2, dim}});
  in.rows.rows_per_sequence = 1000;
  std::printf("sm_%d %s G=%d R=%d D=%d: ", version / 10, name_of(dtype), static_cast<int>(groups),
              static_cast<int>(heads), static_cast<int>(dim));
  try {
    require(attention_suits_cudnn(in), "the call does not suit cuDNN");
    const std::string text = properties_of(version);
    cuda::CudnnDescriptor device(lib, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
               text.data());
    device.finalize();
    const cuda::CudnnAttentionGraph operands(lib, cuda::CudnnAttentionShape(in));
    const cuda::CudnnPlan plan = operands.graph.compile(kCudnnWorkspace, nullptr, device.raw());
    std::printf("%d bytes of workspace\n", static_cast<int>(plan.workspace_bytes()));
    return true;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return false;
  }
}

}  // namespace

int main() {
  const cuda::Cudnn lib;
  bool all_compiled = true;
  for (const int version : {800, 900, 1000})
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const std::int64_t dim : {64, 80, 96, 128}) {
        all_compiled &= compile(lib, version, dtype, 12, 1, dim);
        all_compiled &= compile(lib, version, dtype, 1, 8, dim);
        all_compiled &= compile(lib, version, dtype, 8, 4, dim);
      }
  return all_compiled ? 0 : 1;
}
