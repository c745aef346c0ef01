// A cuDNN operation graph, and the plan that the library compiles from it.
//
// Graph tensors have rank 4. Each run gets the address of every tensor in memory; for a scalar, that of a float on the
// host. A temporary tensor exists only inside the compiled kernel.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/cuda/cudnn.h"

namespace mtl::cuda {

/// Unless the call succeeded, throws Error with "cuDNN cannot WHAT: " and the library's message.
void expect_cudnn_success(const Cudnn& lib, cudnnStatus_t status, const char* what);

/// A backend API descriptor.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& lib, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : lib_(other.lib_), raw_(std::exchange(other.raw_, nullptr)) {}
  ~CudnnDescriptor();
  cudnnBackendDescriptor_t raw() const { return raw_; }

  /// Each function sets an attribute, whose values the library copies. Throws Error on failure.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void set(cudnnBackendAttributeName_t name, const std::vector<cudnnBackendDescriptor_t>& values);
  /// Checks the attributes, which cannot change afterwards. Throws Error if the library refuses them.
  void finalize();

 private:
  const Cudnn* lib_;
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// A compiled graph.
class CudnnPlan {
 public:
  /// Pairs of tensor number and address.
  using Addresses = std::vector<std::pair<std::int64_t, const void*>>;
  /// Enqueues the plan on `handle`'s stream. `workspace` must have workspace_bytes() bytes. Scalars are read before
  /// run() returns.
  void run(cudnnHandle_t handle, const Addresses& addresses, void* workspace) const;
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  friend class CudnnGraph;
  CudnnPlan(const Cudnn& lib, CudnnDescriptor plan, std::int64_t workspace_bytes)
      : lib_(lib), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}
  const Cudnn& lib_;
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
};

class CudnnGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;

  explicit CudnnGraph(const Cudnn& lib) : lib_(lib) {}

  /// Each adds a tensor and returns its number. Strides are in elements; a temporary is contiguous.
  std::int64_t add_tensor(cudnnDataType_t type, const Dims& sizes, const Dims& strides);
  std::int64_t add_temporary(cudnnDataType_t type, const Dims& sizes);
  std::int64_t add_scalar();

  /// c = a b over the last two dimensions; fp32 sums.
  void matmul(std::int64_t a, std::int64_t b, std::int64_t c);
  /// y = mode(x, b, t), with one to three operands. Only CUDNN_POINTWISE_GEN_INDEX uses `axis`.
  void pointwise(cudnnPointwiseMode_t mode, const std::vector<std::int64_t>& operands, std::int64_t y,
                 std::int64_t axis = -1);
  /// y = op over x's last dimension, whose size in y is 1.
  void reduce(cudnnReduceTensorOp_t op, std::int64_t x, std::int64_t y);

  /// Compiles the best engine, by the library's estimate, that needs at most `workspace` bytes. Compiles for `handle`'s
  /// GPU or, if that is null, for the GPU described by `device`. Throws Error if there is no such engine.
  CudnnPlan compile(std::int64_t workspace, cudnnHandle_t handle, cudnnBackendDescriptor_t device = nullptr) const;

 private:
  enum class Kind { memory, temporary, scalar };
  std::int64_t add(cudnnDataType_t type, const Dims& sizes, const Dims& strides, Kind kind);
  const CudnnDescriptor& tensor(std::int64_t number) const { return tensors_[number - 1]; }
  void add_operation(CudnnDescriptor operation);

  const Cudnn& lib_;
  std::vector<CudnnDescriptor> tensors_, operations_;
};

}  // namespace mtl::cuda
