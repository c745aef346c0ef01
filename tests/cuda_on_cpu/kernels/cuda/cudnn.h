// Replaces kernels/cuda/cudnn.h in tests: declares the parts of cuDNN's backend API that mtl uses, and functions that
// emulate the library by interpreting the graph in fp64 (tests/cuda_on_cpu/cudnn.cpp). Like cuDNN, they reject missing
// attributes, changes after finalize() and sizes below 1. They also reject addresses outside device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "device/cuda_stream.h"

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_BAD_PARAM = 2000, CUDNN_STATUS_NOT_SUPPORTED = 3000 };
enum cudnnDataType_t {
  CUDNN_DATA_FLOAT,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_BOOLEAN = 11
};
enum cudnnPointwiseMode_t {
  CUDNN_POINTWISE_ADD,
  CUDNN_POINTWISE_MUL,
  CUDNN_POINTWISE_DIV,
  CUDNN_POINTWISE_SUB,
  CUDNN_POINTWISE_EXP,
  CUDNN_POINTWISE_LOG,
  CUDNN_POINTWISE_CMP_GE,
  CUDNN_POINTWISE_GEN_INDEX,
  CUDNN_POINTWISE_BINARY_SELECT,
};
enum cudnnReduceTensorOp_t { CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_MAX };
enum cudnnBackendHeurMode_t { CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_A = 3 };
enum cudnnBackendDescriptorType_t {
  CUDNN_BACKEND_TENSOR_DESCRIPTOR,
  CUDNN_BACKEND_MATMUL_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
  CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
};
enum cudnnBackendAttributeType_t {
  CUDNN_TYPE_HANDLE,
  CUDNN_TYPE_DATA_TYPE,
  CUDNN_TYPE_BOOLEAN,
  CUDNN_TYPE_INT64,
  CUDNN_TYPE_VOID_PTR,
  CUDNN_TYPE_HEUR_MODE,
  CUDNN_TYPE_POINTWISE_MODE,
  CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
  CUDNN_TYPE_BACKEND_DESCRIPTOR,
};
enum cudnnBackendAttributeName_t {
  CUDNN_ATTR_POINTWISE_MODE,
  CUDNN_ATTR_POINTWISE_MATH_PREC,
  CUDNN_ATTR_POINTWISE_AXIS,
  CUDNN_ATTR_ENGINEHEUR_MODE,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
  CUDNN_ATTR_ENGINEHEUR_RESULTS,
  CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
  CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
  CUDNN_ATTR_OPERATIONGRAPH_OPS,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
  CUDNN_ATTR_TENSOR_DATA_TYPE,
  CUDNN_ATTR_TENSOR_DIMENSIONS,
  CUDNN_ATTR_TENSOR_STRIDES,
  CUDNN_ATTR_TENSOR_UNIQUE_ID,
  CUDNN_ATTR_TENSOR_IS_VIRTUAL,
  CUDNN_ATTR_TENSOR_IS_BY_VALUE,
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
  CUDNN_ATTR_MATMUL_COMP_TYPE,
  CUDNN_ATTR_OPERATION_MATMUL_ADESC,
  CUDNN_ATTR_OPERATION_MATMUL_BDESC,
  CUDNN_ATTR_OPERATION_MATMUL_CDESC,
  CUDNN_ATTR_OPERATION_MATMUL_DESC,
  CUDNN_ATTR_REDUCTION_OPERATOR,
  CUDNN_ATTR_REDUCTION_COMP_TYPE,
  CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
  CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
  CUDNN_ATTR_OPERATION_REDUCTION_DESC,
};

namespace mtl::emulated {
struct CudnnHandle;
struct Descriptor;
}  // namespace mtl::emulated
using cudnnHandle_t = mtl::emulated::CudnnHandle*;
using cudnnBackendDescriptor_t = mtl::emulated::Descriptor*;

namespace mtl::emulated {

/// True if the emulated library can be opened. False until a test assigns true, because the emulation is slow.
bool& cudnn_is_installed();
/// How many plans were compiled and run.
struct CudnnCounts {
  int plans = 0, runs = 0;
};
CudnnCounts& cudnn_counts();

}  // namespace mtl::emulated

namespace mtl::cuda {

struct Cudnn {
  Cudnn() { require(is_installed(), "cannot open libcudnn.so.9"); }
  static bool is_installed() { return emulated::cudnn_is_installed(); }
  static std::size_t version() { return 91900; }
  static const char* text_of(cudnnStatus_t status);
  static cudnnStatus_t create(cudnnHandle_t* handle);
  static cudnnStatus_t destroy(cudnnHandle_t handle);
  static cudnnStatus_t set_stream(cudnnHandle_t handle, StreamHandle stream);
  static cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor);
  static cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t descriptor);
  static cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  static cudnnStatus_t get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type, std::int64_t capacity, std::int64_t* count,
                                     void* values);
  static cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor);
  static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
};

}  // namespace mtl::cuda
