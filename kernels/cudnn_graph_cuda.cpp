#include "kernels/cudnn_graph_cuda.h"

#include "base/count_of.h"

namespace mtl::cuda {

void expect_cudnn_success(const Cudnn& lib, cudnnStatus_t status, const char* what) {
  require(status == CUDNN_STATUS_SUCCESS, "cuDNN cannot ", what, ": ", lib.text_of(status));
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& lib, cudnnBackendDescriptorType_t type) : lib_(&lib) {
  expect_cudnn_success(lib, lib.create_descriptor(type, &raw_), "create a descriptor");
}
CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr) lib_->destroy_descriptor(raw_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  expect_cudnn_success(*lib_, lib_->set_attribute(raw_, name, type, count, values), "set an attribute");
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw());
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const std::vector<cudnnBackendDescriptor_t>& values) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, values.size(), values.data());
}
void CudnnDescriptor::finalize() { expect_cudnn_success(*lib_, lib_->finalize(raw_), "use a descriptor"); }

void CudnnPlan::run(cudnnHandle_t handle, const Addresses& addresses, void* workspace) const {
  std::vector<std::int64_t> tensors;
  std::vector<const void*> pointers;
  for (const auto& [tensor, address] : addresses) {
    tensors.push_back(tensor);
    pointers.push_back(address);
  }
  const std::int64_t count = tensors.size();
  CudnnDescriptor pack(lib_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, tensors.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  expect_cudnn_success(lib_, lib_.execute(handle, plan_.raw(), pack.raw()), "run a plan");
}

std::int64_t CudnnGraph::add(cudnnDataType_t type, const Dims& sizes, const Dims& strides, Kind kind) {
  constexpr std::int64_t kAlignment = 16;  // bytes
  CudnnDescriptor tensor(lib_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t number = tensors_.size() + 1;
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, kind == Kind::temporary);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, kind == Kind::scalar);
  tensor.finalize();
  tensors_.push_back(std::move(tensor));
  return number;
}
std::int64_t CudnnGraph::add_tensor(cudnnDataType_t type, const Dims& sizes, const Dims& strides) {
  return add(type, sizes, strides, Kind::memory);
}
std::int64_t CudnnGraph::add_temporary(cudnnDataType_t type, const Dims& sizes) {
  return add(type, sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}, Kind::temporary);
}
std::int64_t CudnnGraph::add_scalar() { return add(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Kind::scalar); }

void CudnnGraph::add_operation(CudnnDescriptor operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::matmul(std::int64_t a, std::int64_t b, std::int64_t c) {
  CudnnDescriptor product(lib_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  product.finalize();
  CudnnDescriptor operation(lib_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(c));
  add_operation(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const std::vector<std::int64_t>& operands, std::int64_t y,
                           std::int64_t axis) {
  constexpr cudnnBackendAttributeName_t kOperands[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  require(operands.size() <= std::size(kOperands), "a pointwise operation has at most three operands");
  const bool writes_index = mode == CUDNN_POINTWISE_GEN_INDEX;
  CudnnDescriptor function(lib_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
               writes_index ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT);
  if (writes_index) function.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  function.finalize();
  CudnnDescriptor operation(lib_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  auto operand = operands.begin();
  for (const cudnnBackendAttributeName_t name : kOperands)
    if (operand != operands.end()) operation.set(name, tensor(*operand++));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(y));
  add_operation(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, std::int64_t x, std::int64_t y) {
  CudnnDescriptor reduction(lib_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize();
  CudnnDescriptor operation(lib_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensor(y));
  add_operation(std::move(operation));
}

CudnnPlan CudnnGraph::compile(std::int64_t workspace, cudnnHandle_t handle,
                              [[maybe_unused]] cudnnBackendDescriptor_t device) const {
  const auto raw = [](const std::vector<CudnnDescriptor>& descriptors) {
    std::vector<cudnnBackendDescriptor_t> out;
    for (const CudnnDescriptor& descriptor : descriptors) out.push_back(descriptor.raw());
    return out;
  };
  CudnnDescriptor graph(lib_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, raw(operations_));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // versions before 9.8 require the handle's attributes
  constexpr auto kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE, kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop
  if (handle != nullptr) graph.set(kGraphHandle, CUDNN_TYPE_HANDLE, handle);
  graph.finalize();

  CudnnDescriptor search(lib_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  search.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  search.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
#if !defined(CUDNN_VERSION) || CUDNN_VERSION >= 90800  // earlier headers lack the attribute
  if (device != nullptr) search.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, device);
#endif
  search.finalize();
  const auto results = [&](std::vector<cudnnBackendDescriptor_t> into) {
    std::int64_t found = 0;
    expect_cudnn_success(lib_,
                         lib_.get_attribute(search.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            into.size(), &found, into.data()),
                         "list engines");
    return found;
  };
  std::vector<CudnnDescriptor> engines;
  for (std::int64_t i = results({}); i > 0; --i) engines.emplace_back(lib_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const std::int64_t found = engines.empty() ? 0 : results(raw(engines));
  for (std::int64_t i = 0; i < found; ++i) {
    CudnnDescriptor plan(lib_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[i]);
    if (handle != nullptr) plan.set(kPlanHandle, CUDNN_TYPE_HANDLE, handle);
    if (lib_.finalize(plan.raw()) != CUDNN_STATUS_SUCCESS) continue;  // an engine may refuse what the estimate allowed
    std::int64_t bytes = 0, count = 0;
    expect_cudnn_success(
        lib_,
        lib_.get_attribute(plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
        "report a plan's workspace");
    if (bytes <= workspace) return {lib_, std::move(plan), bytes};
  }
  fail(Exit::failure, "cuDNN ", lib_.version(), " has no engine that computes this attention with at most ", workspace,
       " bytes of workspace (cuDNN suggested ", count_of(found, "engine"), "); choose another --attention-backend");
}

}  // namespace mtl::cuda
