// Emulates cuDNN's backend API: interprets the operation graph in fp64. Temporaries are rounded to their dtype.
#include "kernels/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/dtype.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::emulated {

struct CudnnHandle {
  cuda::StreamHandle stream;
};

/// A descriptor. `values` stores attributes that are numbers or addresses. `children` stores attributes that are other
/// descriptors, and keeps them alive.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<std::int64_t>> values{};
  std::map<cudnnBackendAttributeName_t, std::vector<std::shared_ptr<Descriptor>>> children{};
  bool is_final = false;

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name) || children.contains(name); }
  std::int64_t at(cudnnBackendAttributeName_t name) const { return values.at(name).at(0); }
  const Descriptor& child(cudnnBackendAttributeName_t name) const { return *children.at(name).at(0); }
};

namespace {

/// The descriptors that callers have not destroyed.
std::map<Descriptor*, std::shared_ptr<Descriptor>>& live_descriptors() {
  static std::map<Descriptor*, std::shared_ptr<Descriptor>> all;
  return all;
}

using Numbers = std::vector<double>;
constexpr std::int64_t kSmallWorkspace = 256, kLargeWorkspace = std::int64_t{1} << 20;

DType dtype_of(std::int64_t type) {
  if (type == CUDNN_DATA_BFLOAT16) return DType::bf16;
  return type == CUDNN_DATA_HALF ? DType::f16 : DType::f32;
}

/// A graph tensor during interpretation, with its elements in row-major order.
struct Operand {
  explicit Operand(const Descriptor& tensor)
      : id(tensor.at(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        type(tensor.at(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        is_temporary(tensor.at(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0),
        is_scalar(tensor.at(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0) {
    std::copy_n(tensor.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS).begin(), 4, sizes.begin());
    std::copy_n(tensor.values.at(CUDNN_ATTR_TENSOR_STRIDES).begin(), 4, strides.begin());
  }
  std::int64_t id, type;
  bool is_temporary, is_scalar;
  std::array<std::int64_t, 4> sizes, strides;

  std::int64_t numel() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  std::size_t extent_bytes() const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < 4; ++i) last += (sizes[i] - 1) * strides[i];
    return static_cast<std::size_t>(last + 1) * size_of(dtype_of(type));
  }
  /// Calls visit(coordinates, offset in memory) for each element in row-major order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::array<std::int64_t, 4> at{};
    for (at[0] = 0; at[0] < sizes[0]; ++at[0])
      for (at[1] = 0; at[1] < sizes[1]; ++at[1])
        for (at[2] = 0; at[2] < sizes[2]; ++at[2])
          for (at[3] = 0; at[3] < sizes[3]; ++at[3])
            visit(at, at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
  }
  /// Returns an element's row-major index. Axes of size 1 are broadcast: their coordinate counts as 0.
  std::size_t number_of(const std::array<std::int64_t, 4>& at) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) number = number * sizes[i] + (sizes[i] == 1 ? 0 : at[i]);
    return static_cast<std::size_t>(number);
  }
};

double rounded(double value, std::int64_t type) {
  const float single = static_cast<float>(value);
  return with_float_type(dtype_of(type), [&]<class T>(T) { return double{widen(narrow<T>(single))}; });
}

class Interpreter {
 public:
  explicit Interpreter(std::map<std::int64_t, void*> addresses) : addresses_(std::move(addresses)) {}
  void run(const Descriptor& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(operation);
      default:
        return pointwise(operation);
    }
  }

 private:
  const Numbers& read(const Operand& x) {
    Numbers& numbers = values_[x.id];
    if (!numbers.empty()) return numbers;
    require(!x.is_temporary, "emulated cuDNN: a temporary is read before it is written");
    with_float_type(dtype_of(x.type), [&]<class T>(T) {
      const T* memory = static_cast<const T*>(addresses_.at(x.id));
      x.for_each([&](const auto&, std::int64_t offset) { numbers.push_back(double{widen(memory[offset])}); });
    });
    return numbers;
  }
  void write(const Operand& y, Numbers numbers) {
    for (double& number : numbers) number = rounded(number, y.type);
    if (!y.is_temporary) {
      with_float_type(dtype_of(y.type), [&]<class T>(T) {
        T* memory = static_cast<T*>(addresses_.at(y.id));
        std::size_t i = 0;
        y.for_each(
            [&](const auto&, std::int64_t offset) { memory[offset] = narrow<T>(static_cast<float>(numbers[i++])); });
      });
    }
    values_[y.id] = std::move(numbers);
  }

  void matmul(const Descriptor& operation) {
    const Operand a(operation.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
        b(operation.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC)), c(operation.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const Numbers &left = read(a), &right = read(b);
    Numbers out;
    c.for_each([&](const auto& at, std::int64_t) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.sizes[3]; ++k)
        sum += left[a.number_of({at[0], at[1] * a.sizes[1] / c.sizes[1], at[2], k})] *
               right[b.number_of({at[0], at[1] * b.sizes[1] / c.sizes[1], k, at[3]})];
      out.push_back(sum);
    });
    write(c, std::move(out));
  }
  void reduce(const Descriptor& operation) {
    const bool is_max = operation.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC).at(CUDNN_ATTR_REDUCTION_OPERATOR) ==
                        CUDNN_REDUCE_TENSOR_MAX;
    const Operand x(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
        y(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const Numbers& in = read(x);
    Numbers out(static_cast<std::size_t>(y.numel()), is_max ? -INFINITY : 0);
    x.for_each([&](const auto& at, std::int64_t) {
      double& into = out[y.number_of(at)];
      const double value = in[x.number_of(at)];
      into = is_max ? std::max(into, value) : into + value;
    });
    write(y, std::move(out));
  }
  void pointwise(const Descriptor& operation) {
    const Descriptor& function = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = static_cast<cudnnPointwiseMode_t>(function.at(CUDNN_ATTR_POINTWISE_MODE));
    const Operand y(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    std::vector<Operand> operands;
    for (const auto name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                            CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
      if (operation.has(name)) operands.emplace_back(operation.child(name));
    Numbers out;
    y.for_each([&](const auto& at, std::int64_t) {
      const auto operand = [&](std::size_t i) { return read(operands.at(i))[operands[i].number_of(at)]; };
      switch (mode) {
        case CUDNN_POINTWISE_ADD:
          return out.push_back(operand(0) + operand(1));
        case CUDNN_POINTWISE_MUL:
          return out.push_back(operand(0) * operand(1));
        case CUDNN_POINTWISE_DIV:
          return out.push_back(operand(0) / operand(1));
        case CUDNN_POINTWISE_SUB:
          return out.push_back(operand(0) - operand(1));
        case CUDNN_POINTWISE_EXP:
          return out.push_back(std::exp(operand(0)));
        case CUDNN_POINTWISE_LOG:
          return out.push_back(std::log(operand(0)));
        case CUDNN_POINTWISE_CMP_GE:
          return out.push_back(operand(0) >= operand(1) ? 1 : 0);
        case CUDNN_POINTWISE_GEN_INDEX:
          return out.push_back(double(at[static_cast<std::size_t>(function.at(CUDNN_ATTR_POINTWISE_AXIS))]));
        case CUDNN_POINTWISE_BINARY_SELECT:
          return out.push_back(operand(2) != 0 ? operand(0) : operand(1));
      }
    });
    write(y, std::move(out));
  }

  std::map<std::int64_t, void*> addresses_;
  std::map<std::int64_t, Numbers> values_;
};

/// Returns the attributes that finalize() requires for this descriptor type.
const std::vector<cudnnBackendAttributeName_t>& required_by(cudnnBackendDescriptorType_t type) {
  static const std::map<cudnnBackendDescriptorType_t, std::vector<cudnnBackendAttributeName_t>> all{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
        CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_IS_VIRTUAL,
        CUDNN_ATTR_TENSOR_IS_BY_VALUE}},
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR, {CUDNN_ATTR_MATMUL_COMP_TYPE}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
        CUDNN_ATTR_OPERATION_MATMUL_CDESC}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_YDESC}},
      {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_COMP_TYPE}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_YDESC}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE}},
      {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_HANDLE}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_ATTR_VARIANT_PACK_WORKSPACE}},
  };
  return all.at(type);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
      return sizeof(cudnnDataType_t);
    default:
      return sizeof(std::int64_t);
  }
}

}  // namespace

bool& cudnn_is_installed() {
  static bool installed = false;
  return installed;
}
CudnnCounts& cudnn_counts() {
  static CudnnCounts counts;
  return counts;
}

}  // namespace mtl::emulated

namespace mtl::cuda {

using namespace emulated;

const char* Cudnn::text_of(cudnnStatus_t) { return "refused by the emulated library"; }
cudnnStatus_t Cudnn::create(cudnnHandle_t* handle) {
  *handle = new CudnnHandle{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Cudnn::destroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Cudnn::set_stream(cudnnHandle_t handle, StreamHandle stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Cudnn::create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto owner = std::make_shared<Descriptor>();
  owner->type = type;
  *descriptor = owner.get();
  live_descriptors()[owner.get()] = std::move(owner);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Cudnn::destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  return live_descriptors().erase(descriptor) == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t Cudnn::set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  if (descriptor->is_final || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto child = live_descriptors().find(static_cast<Descriptor* const*>(values)[i]);
      if (child == live_descriptors().end() || !child->second->is_final) return CUDNN_STATUS_BAD_PARAM;
      descriptor->children[name].push_back(child->second);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(values) + static_cast<std::size_t>(i) * emulated::size_of(type),
                emulated::size_of(type));
    descriptor->values[name].push_back(value);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Cudnn::finalize(cudnnBackendDescriptor_t descriptor) {
  for (const auto name : required_by(descriptor->type))
    if (!descriptor->has(name)) return CUDNN_STATUS_BAD_PARAM;
  if (descriptor->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    for (const auto name : {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES})
      if (descriptor->values[name].size() != 4 || std::ranges::min(descriptor->values[name]) < 1)
        return CUDNN_STATUS_BAD_PARAM;
  descriptor->is_final = true;
  cudnn_counts().plans += descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  return CUDNN_STATUS_SUCCESS;
}

/// Suggests two engines. The first needs more workspace than the caller has.
cudnnStatus_t Cudnn::get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t, std::int64_t capacity, std::int64_t* count,
                                   void* values) {
  if (!descriptor->is_final) return CUDNN_STATUS_BAD_PARAM;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = 2;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(capacity, 2); ++i) {
      Descriptor& engine = *static_cast<Descriptor**>(values)[i];
      engine.values[CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE] = {i == 0 ? kLargeWorkspace : kSmallWorkspace};
      engine.children[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
          descriptor->children.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      engine.is_final = true;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || capacity != 1) return CUDNN_STATUS_BAD_PARAM;
  const std::int64_t bytes = descriptor->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).at(name);
  std::memcpy(values, &bytes, sizeof bytes);
  *count = 1;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Cudnn::execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (!plan->is_final || !pack->is_final) return CUDNN_STATUS_BAD_PARAM;
  const Descriptor& engine = plan->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto address_at = [](std::int64_t value) { return reinterpret_cast<void*>(value); };
  mirror::require_inside(address_at(pack->at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)),
                         static_cast<std::size_t>(engine.at(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
  std::map<std::int64_t, void*> addresses;
  const auto& ids = pack->values.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (std::size_t i = 0; i < ids.size(); ++i)
    addresses[ids[i]] = address_at(pack->values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).at(i));
  const auto operations =
      engine.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).children.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  auto scalars = std::make_shared<std::vector<std::unique_ptr<float>>>();  // copied immediately, like kernel arguments
  for (const auto& operation : operations) {
    for (const auto& [name, tensors] : operation->children) {
      if (tensors[0]->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
      const Operand tensor(*tensors[0]);
      if (tensor.is_temporary) continue;
      void*& address = addresses.at(tensor.id);
      if (tensor.is_scalar) {
        scalars->push_back(std::make_unique<float>(*static_cast<const float*>(address)));
        address = scalars->back().get();
      } else {
        mirror::require_inside(address, tensor.extent_bytes());
      }
    }
  }
  ++cudnn_counts().runs;
  mirror::enqueue(handle->stream, [operations, addresses, scalars] {
    const mirror::Opened opened;
    Interpreter interpreter(addresses);
    for (const auto& operation : operations) interpreter.run(*operation);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace mtl::cuda
