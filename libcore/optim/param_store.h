// Memory of parameters, gradients and optimizer state, in flat buckets.
//
// A bucket holds parameters whose gradients are summed over the same ranks, one after another, the last layers first:
// the order in which backward finishes them, so that one reduction runs behind the next layers. Of each bucket this
// rank owns a range: the update rule's states exist, and updates happen, only there (the range is everything where the
// state is not shared out). Layers see views, bound once.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/memory.h"
#include "layout/layout.h"
#include "layout/slice.h"
#include "nn/param.h"
#include "optim/precision.h"
#include "optim/update_rule.h"

namespace mtl {

/// The place of one parameter in a bucket.
struct Segment {
  int param;           // index into ParamStore::specs()
  std::int64_t begin;  // first element in the bucket
  std::int64_t count;  // elements, padding included
};

struct Bucket {
  AxisSet summed_over;  // of its parameters, as their specs say
  bool tied = false;
  std::vector<Segment> segments;
  Tensor values, grads;        // (count) the whole bucket
  std::vector<Tensor> states;  // (owned_end - owned_begin) each, as ParamStore::states() lists them
  std::int64_t count = 0;
  std::int64_t owned_begin = 0, owned_end = 0;

  /// The part of values or grads that this rank owns.
  Tensor owned(const Tensor& whole) const { return whole.flat(owned_begin, owned_end - owned_begin); }
  /// The owned part of a segment, in the bucket's numbers; or the part that a rank owns which has the place `index`
  /// among those that share out the optimizer's state.
  struct Range {
    std::int64_t begin, count;
  };
  Range owned(const Segment& segment) const;
  Range owned_by(int index, const Segment& segment) const;
};

class ParamStore {
 public:
  /// Lays out memory for every parameter that `visit_all` visits, in that order, and binds the layers' views.
  /// Values start as zeros: see initialize and the checkpoint loader. `states` are the update rule's; without them
  /// (evaluation) there are no gradients either.
  ParamStore(Device device, Precision precision, std::optional<std::vector<StateSpec>> states,
             const std::function<void(const ParamVisitor&)>& visit_all, Layout layout = {});
  ParamStore(const ParamStore&) = delete;

  int size() const { return static_cast<int>(specs_.size()); }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  /// The index of a canonical name, or -1.
  int find(const std::string& name) const;
  const Layout& layout() const { return layout_; }
  /// Which part of the whole tensor this rank's value is.
  Slice slice(int param) const;
  /// Which part of that this rank owns: what its moments are of. May be empty.
  Slice owned_slice(int param) const;
  /// Whether this is the first of the model-parallel ranks that hold the same elements: the one that counts them in
  /// the gradient's norm and writes them into checkpoints.
  bool is_first_holder(int param) const;
  /// This rank's value and gradient, padding rows included.
  Tensor value(int param) const { return values_[static_cast<std::size_t>(param)]; }
  Tensor grad(int param) const { return grads_[static_cast<std::size_t>(param)].tensor; }
  /// What is kept of every parameter for its updates; nothing in evaluation.
  const std::vector<StateSpec>& states() const { return states_; }
  /// The owned elements of the value or of states()[state], flat, those of padding rows after the owned slice's.
  Tensor owned_value(int param) const;
  Tensor owned_state(int param, std::size_t state) const;

  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool has_gradients() const { return with_gradients_; }

  /// Before the first micro-batch of a step: the next write of every gradient overwrites.
  void begin_step();
  /// After the last: throws when a gradient was never written, naming it.
  void check_all_written() const;

  /// Draws initial values: Philox by (seed, parameter name), so that they depend on nothing but these.
  void initialize(std::uint64_t seed);
  /// Bytes by role, for the memory plan.
  std::size_t value_bytes() const;
  std::size_t grad_bytes() const;
  std::size_t state_bytes() const;

 private:
  void lay_out(Device device);
  void allocate(Device device, Bucket& bucket);
  struct Place {
    const Bucket* bucket;
    const Segment* segment;
  };
  Place place(int param) const;

  bool with_gradients_;
  std::vector<StateSpec> states_;
  Layout layout_;
  std::vector<ParamSpec> specs_;
  std::vector<Shape> shapes_;  // in memory
  std::vector<Tensor> values_;
  std::deque<GradState> grads_;  // stable addresses: layers point at them
  std::vector<Bucket> buckets_;
  std::vector<Buffer> memory_;
};

}  // namespace mtl
