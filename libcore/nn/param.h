// Parameters know what they are: a layer describes each of its tensors with a ParamSpec, the ParamStore (optim) gives
// it memory, and the layer keeps a Param, a view of the value and of where its gradient goes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/tensor.h"
#include "layout/layout.h"

namespace mtl {

/// The uses of parameter memory. Layers read the values; an update rule keeps states, perhaps several, and changes
/// the main weights where the values are a narrower copy of them.
enum class Role { values, gradients, main_weights, states };

/// How a parameter starts.
enum class Init { zeros, ones, normal };

/// An axis of a tensor that is split over the ranks of an axis of the grid.
struct Shard {
  int axis;
  Axis over;
};

struct ParamSpec {
  std::string name;                    // canonical: "layers.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;     // of the whole tensor, as checkpoints store it: the vocabulary unpadded
  std::vector<Shard> shards = {};      // none: every rank holds all
  std::int64_t padded_rows = 0;        // axis 0 in memory over all ranks, when that is more than shape[0]
  bool decays = true;                  // whether weight decay applies: not to biases and 1-D tensors
  AxisSet summed_over = kReplicaAxes;  // its gradient is the sum over the ranks of these axes
  bool tied = false;                   // and over the first and the last pipeline stage, which hold a copy each
  Init init = Init::normal;
  float init_std = 0;
  int unit = 0;  // of the model, in the order of a forward pass: the embedding, then the layers, then the head

  /// Elements of the whole tensor, without padding.
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (std::int64_t size : shape) product *= size;
    return product;
  }
};

/// A gradient's memory, and whether this step has written it: the first write overwrites, later ones add.
struct GradState {
  Tensor tensor;
  bool written = false;
};

/// What a layer holds. Bound by the ParamStore before the first step.
struct Param {
  Tensor value;  // this rank's part: as described, the sharded axis divided by the number of ranks
  GradState* grad = nullptr;
  int index = -1;  // its place in the store, in the order of visits

  bool exists() const { return value.exists(); }
  /// Where to write or add the gradient now; marks it as written. Of a parameter that the layer does not have: nowhere.
  Grad take_grad() const {
    if (!exists()) return {};
    GradMode mode = grad->written ? GradMode::accumulate : GradMode::overwrite;
    grad->written = true;
    return {grad->tensor, mode};
  }
};

class ParamOwner;

/// The right to use one role of a unit's parameters: as long as it exists, their memory is there and complete.
class Lease {
 public:
  Lease() = default;  // of memory that stays anyway
  Lease(ParamOwner& owner, Role role, int unit) : owner_(&owner), role_(role), unit_(unit) {}
  Lease(Lease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), role_(other.role_), unit_(other.unit_) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(role_, other.role_);
    std::swap(unit_, other.unit_);
    return *this;
  }
  ~Lease();

 private:
  ParamOwner* owner_ = nullptr;
  Role role_ = Role::values;
  int unit_ = 0;
};

/// Brings the parameters' memory when a unit needs it, and reduces gradients as soon as they are final. Units are
/// numbered as in ParamSpec::unit.
class ParamOwner {
 public:
  virtual ~ParamOwner() = default;
  /// Returns when the unit can use this role of its parameters. Leases may overlap, also of the same unit.
  virtual Lease acquire(Role role, int unit) = 0;
  /// Nothing more is added to the gradients of this unit in this step. Called under its lease of gradients.
  virtual void gradients_ready(int unit) = 0;

 private:
  friend class Lease;
  /// A lease ends. An owner whose memory always stays gives empty leases instead.
  virtual void release(Role, int) noexcept {}
};

inline Lease::~Lease() {
  if (owner_ != nullptr) owner_->release(role_, unit_);
}

/// Called by a layer once for each parameter it has, always in the same order.
using ParamVisitor = std::function<void(Param&, const ParamSpec&)>;

}  // namespace mtl
