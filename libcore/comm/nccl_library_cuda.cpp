// Calls the real NCCL library. The build needs only NCCL's header. We open the library at run time, when the first GPU
// group is created.
#include <nccl.h>

#include <cstring>

#include "comm/communicator.h"
#include "comm/nccl_environment.h"
#include "comm/nccl_library.h"
#include "device/cuda_library.h"

namespace mtl {

namespace {

struct Functions {
  CudaLibrary library{{"libnccl.so.2"},
                      "moves data between GPUs",
                      "install NCCL 2 or add its folder to LD_LIBRARY_PATH, start one rank, or choose --device cpu"};
  decltype(&::ncclGetUniqueId) unique_id = library["ncclGetUniqueId"];
  decltype(&::ncclCommInitRankConfig) open = library["ncclCommInitRankConfig"];
  decltype(&::ncclCommDestroy) close = library["ncclCommDestroy"];
  decltype(&::ncclCommAbort) abort = library["ncclCommAbort"];
  decltype(&::ncclGroupStart) begin_calls = library["ncclGroupStart"];
  decltype(&::ncclGroupEnd) end_calls = library["ncclGroupEnd"];
  decltype(&::ncclCommGetAsyncError) fault = library["ncclCommGetAsyncError"];
  decltype(&::ncclGetErrorString) error_text = library["ncclGetErrorString"];
  decltype(&::ncclGetLastError) last_error = library["ncclGetLastError"];
  decltype(&::ncclAllReduce) all_reduce = library["ncclAllReduce"];
  decltype(&::ncclAllGather) all_gather = library["ncclAllGather"];
  decltype(&::ncclReduceScatter) reduce_scatter = library["ncclReduceScatter"];
  decltype(&::ncclBroadcast) broadcast = library["ncclBroadcast"];
  decltype(&::ncclSend) send = library["ncclSend"];
  decltype(&::ncclRecv) receive = library["ncclRecv"];
  // Only available since NCCL 2.19.
  bool can_register = library.has("ncclCommRegister") && library.has("ncclCommDeregister");
  decltype(&::ncclCommRegister) register_memory =
      can_register ? library["ncclCommRegister"] : CudaLibrary::Symbol(nullptr);
  decltype(&::ncclCommDeregister) deregister_memory =
      can_register ? library["ncclCommDeregister"] : CudaLibrary::Symbol(nullptr);
};

/// Returns the NCCL data type for summing a tensor. Throws Error if we cannot sum its dtype.
ncclDataType_t summed_type(const Tensor& tensor) {
  if (tensor.dtype() == DType::f64) return ncclFloat64;
  require(is_computed(tensor.dtype()), "NCCL: sums of ", name_of(tensor.dtype()), " are not supported");
  return tensor.dtype() == DType::bf16 ? ncclBfloat16 : tensor.dtype() == DType::f16 ? ncclFloat16 : ncclFloat32;
}

class Nccl final : public NcclLibrary {
 public:
  std::string unique_id() override {
    ncclUniqueId id{};
    check(f_.unique_id(&id), nullptr, "a unique id");
    return {id.internal, sizeof(id.internal)};
  }
  NcclHandle open(const std::string& id, int rank, int size, const std::string& name, int blocks) override {
    ncclUniqueId unique{};
    require(id.size() == sizeof(unique.internal), "NCCL: a unique id of ", id.size(), " bytes");
    std::memcpy(unique.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.commName = name.c_str();
    if (blocks > 0) config.maxCTAs = blocks;  // NCCL_MAX_CTAS overrides it
    NcclHandle out = nullptr;
    check(f_.open(&out, size, unique, rank, &config), nullptr, cat("making group '", name, "'"));
    return out;
  }
  void close(NcclHandle group) noexcept override { static_cast<void>(f_.close(group)); }
  void abort(const std::vector<NcclHandle>& groups) noexcept override {
    // Abort all groups within a single NCCL group call. Otherwise each abort could wait for streams of other groups
    // that are still running. ncclCommAbort sets a flag that ends running operations. ncclGroupEnd does the rest, and
    // polls until all graphs that contain operations are destroyed (commDestroySync in NCCL's src/init.cc).
    static_cast<void>(f_.begin_calls());
    for (NcclHandle group : groups) static_cast<void>(f_.abort(group));
    static_cast<void>(f_.end_calls());
  }
  std::string fault(NcclHandle group) override {
    ncclResult_t status = ncclSuccess;
    const ncclResult_t query = f_.fault(group, &status);
    if (query != ncclSuccess) status = query;
    return status == ncclSuccess || status == ncclInProgress ? "" : text_of(status, group);
  }

  void start(NcclHandle group, cuda::StreamHandle stream, const Transfer& transfer) override {
    const std::string name = name_of(transfer.kind);
    check(call(group, stream, transfer), group, cat(name[0] == 'a' ? "an " : "a ", name));
  }

  void* register_memory(NcclHandle group, Tensor memory) override {
    void* registered = nullptr;
    if (!f_.can_register || f_.register_memory(group, memory.raw(), memory.bytes(), &registered) != ncclSuccess)
      return nullptr;
    return registered;
  }
  void deregister_memory(NcclHandle group, void* registered) noexcept override {
    if (registered != nullptr) static_cast<void>(f_.deregister_memory(group, registered));
  }

 private:
  ncclResult_t call(NcclHandle group, cuda::StreamHandle stream, const Transfer& transfer) const {
    const Tensor &out = transfer.out, &in = transfer.in;
    switch (transfer.kind) {
      case OperationKind::all_reduce:
        return f_.all_reduce(out.raw(), out.raw(), out.numel(), summed_type(out), ncclSum, group, stream);
      case OperationKind::all_gather:
        return f_.all_gather(in.raw(), out.raw(), in.bytes(), ncclUint8, group, stream);
      case OperationKind::reduce_scatter:
        return f_.reduce_scatter(in.raw(), out.raw(), out.numel(), summed_type(in), ncclSum, group, stream);
      case OperationKind::broadcast:
        return f_.broadcast(out.raw(), out.raw(), out.bytes(), ncclUint8, transfer.peer, group, stream);
      case OperationKind::send:
        return f_.send(out.raw(), out.bytes(), ncclUint8, 1, group, stream);
      default:
        return f_.receive(out.raw(), out.bytes(), ncclUint8, 0, group, stream);
    }
  }
  std::string text_of(ncclResult_t status, NcclHandle group) const {
    return nccl_fault_text(f_.error_text(status), f_.last_error(group));
  }
  void check(ncclResult_t status, NcclHandle group, const std::string& what) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    throw CommunicationError(cat("NCCL: ", what, " failed: ", text_of(status, group)));
  }

  Functions f_;
};

}  // namespace

NcclLibrary& nccl_library() {
  static Nccl library;
  return library;
}

}  // namespace mtl
