// Parameters. A layer describes each tensor with a ParamSpec. The ParamMemory (optim) allocates it, and the layer keeps
// a Param, which is a view of the tensor's value and gradient.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/tensor.h"
#include "layout/layout.h"

namespace mtl {

/// What a unit leases: its parameters' values, which layers read, or their gradients, which backward writes.
enum class Role { values, gradients };

/// Initial value of a parameter.
enum class Init { zeros, ones, normal };

/// What a parameter is, for the update rules: a linear's weight, that of queries, keys and values together, the token
/// embedding or the output layer, the positions, or a bias or another vector.
enum class ParamUse { matrix, qkv, token_table, position_table, vector };

struct ParamSpec {
  std::string name;                 // canonical: "layers.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;  // of the entire tensor, as checkpoints store it: without vocabulary padding
  Ownership ownership = {};         // layers leave `owners` to the ParamMemory
  std::int64_t padded_rows = 0;     // total size of axis 0 in memory over all ranks, if it exceeds shape[0]
  ParamUse use = ParamUse::matrix;
  Init init = Init::normal;
  float init_std = 0;
  int unit = 0;   // index in the model, in forward order: the embedding, then the layers, then the head
  int chunk = 0;  // index of the unit's chunk on its stage

  /// Weight decay does not apply to biases and other vectors.
  bool decays() const { return use != ParamUse::vector; }
  /// Returns the number of elements in the entire tensor, without padding.
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (std::int64_t size : shape) product *= size;
    return product;
  }
};

/// Returns the spec of a bias, or of another vector that starts at `init` and does not decay.
inline ParamSpec vector_spec(std::string name, std::vector<std::int64_t> shape, Ownership ownership,
                             Init init = Init::zeros) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .ownership = std::move(ownership),
          .use = ParamUse::vector,
          .init = init};
}

/// A gradient's memory, and whether this step has already written to it. The first write in a step overwrites the old
/// gradient; later writes add to the new one.
struct GradState {
  Tensor tensor;
  bool written = false;
};

/// A layer's view of a parameter. The ParamMemory binds it before the first step.
struct Param {
  Tensor value;  // this rank's part: ParamSpec::shape with the sharded axis divided by the number of ranks
  GradState* grad = nullptr;
  int index = -1;  // index in the store, in visiting order

  bool exists() const { return value.exists(); }
  /// Returns the gradient's memory and the mode in which to write it, and marks it as written. Returns an empty Grad if
  /// the parameter does not exist.
  Grad take_grad() const {
    if (!exists()) return {};
    GradMode mode = grad->written ? GradMode::accumulate : GradMode::overwrite;
    grad->written = true;
    return {grad->tensor, mode};
  }
};

class ParamOwner;

/// Ends a lease.
struct EndLease {
  Role role = Role::values;
  int unit = 0;
  void operator()(ParamOwner* owner) const;
};
/// The right to use a unit's parameters in one role. While the lease exists, the memory for that role is resident and
/// complete. Empty for memory that is always resident.
using Lease = std::unique_ptr<ParamOwner, EndLease>;

/// Makes a unit's parameters resident when the unit needs them, and reduces gradients as soon as they are final. Units
/// are numbered as in ParamSpec::unit.
class ParamOwner {
 public:
  virtual ~ParamOwner() = default;
  /// Blocks until the unit can use its parameters in this role. Leases may overlap, even for the same unit. `next` is
  /// the unit that will be acquired next in this role, if the caller knows it: the owner may prepare it meanwhile.
  virtual Lease acquire(Role role, int unit, std::optional<int> next) = 0;
  /// Must be called after a micro-batch's last addition to this unit's gradients, while the unit still holds its
  /// gradient lease. `is_last` is true for the last of the step.
  virtual void gradients_done(int unit, bool is_last) = 0;

 private:
  friend struct EndLease;
  /// Called when a lease ends, except for empty leases, which an owner returns if its memory is always resident.
  virtual void release(Role, int) noexcept {}
};

inline void EndLease::operator()(ParamOwner* owner) const { owner->release(role, unit); }

/// A layer calls the visitor once for each parameter, always in the same order. If the embedding and the head are in
/// different chunks, both visit a tied embedding.
using ParamVisitor = std::function<void(Param&, const ParamSpec&)>;

}  // namespace mtl
