// Memory of parameters in flat buckets: values, gradients, the update rule's states and main weights, each a row of one
// table.
//
// Units (the embedding, a layer, the head) are laid out in groups, the last first: the order in which backward finishes
// them. A group ends with the first unit that brings it to layout.bucket_elements; a unit is never divided, so that its
// memory is gathered, reduced and released as a whole. The parameters of a group whose gradients are summed over the
// same ranks, and that are updated alike, form one bucket, which is reduced, updated and gathered by one call each. A
// tied embedding is a bucket of its own. This rank owns a range of each bucket, or all of it if the optimizer's state
// is not sharded; states and updates are limited to the owned range. Layers see views, which are bound once.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/memory.h"
#include "device/precision.h"
#include "layout/layout.h"
#include "layout/slice.h"
#include "nn/param.h"
#include "optim/bucket.h"
#include "optim/update_rule.h"

namespace mtl {

class ParamStore {
 public:
  /// Lays out memory for every parameter that `visit_all` visits, in that order, and binds the layers' views. Values
  /// start as zeros: see initialize() and the checkpoint loader. `states` are the update rule's; without them
  /// (evaluation) there are no gradients and no main weights either.
  ParamStore(Device device, Precision precision, const std::optional<std::vector<StateSpec>>& states,
             const std::function<void(const ParamVisitor&)>& visit_all, Layout layout = {});
  ParamStore(const ParamStore&) = delete;

  int size() const { return static_cast<int>(specs_.size()); }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  /// Returns the index of the parameter with a canonical name, or -1.
  int find(const std::string& name) const;
  const Layout& layout() const { return layout_; }
  /// The device of the run.
  Device device() const { return device_; }
  /// The device whose memory holds a row of the table, for copies by the host (HostView).
  Device device_of(std::size_t row) const;
  const Precision& precision() const { return precision_; }
  /// The row of the table that updates write and checkpoints hold as parameters: the main weights', or else the
  /// values'.
  std::size_t main_row() const { return main_row_; }
  /// This rank's part of the whole tensor, without padding.
  Slice slice(int param) const;
  /// The part of slice() that this rank owns and updates; may be empty.
  Slice owned_slice(int param) const;
  /// True on the first of the model-parallel ranks that hold the same elements, which counts them in the gradient's
  /// norm and writes them into checkpoints.
  bool is_first_holder(int param) const;
  /// This rank's value and gradient, padding rows included.
  Tensor value(int param) const { return values_[param]; }
  Tensor grad(int param) const { return grads_[param].tensor; }

  /// The rows of the table.
  const std::vector<Storage>& table() const { return table_; }
  /// The part of a parameter that a row of the table holds, flat, with elements of padding rows last; and its slice,
  /// without padding. By the row's extent, it is the rank's part or the owned part.
  Tensor held(int param, std::size_t row) const;
  Slice held_slice(int param, std::size_t row) const;
  /// The owned part of a parameter in a row of the table, flat.
  Tensor owned(int param, std::size_t row) const;
  /// Bytes of a row in all buckets.
  std::size_t bytes(std::size_t row) const;

  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// The buckets that hold parameters of a unit (ParamSpec::unit), as indices into buckets().
  const std::vector<std::size_t>& buckets_of(int unit) const { return buckets_of_.at(unit); }
  bool has_gradients() const { return table_.size() > kGradients; }

  /// Call before the first micro-batch of a step: the next write of every gradient overwrites.
  void begin_step();
  /// Call after the last micro-batch. Throws, naming the parameter, if a gradient was never written.
  void check_all_written() const;

  /// Returns the map from the owned elements of a parameter to their numbers in the whole tensor. Throws if more than
  /// one axis is sharded.
  ElementMap owned_elements(int param) const;

  /// Draws initial values and main weights by Philox from (seed, parameter name) alone. Rounds them to
  /// precision().load, and then to the dtype of their row.
  void initialize(std::uint64_t seed);

 private:
  void lay_out();
  void add(Bucket bucket);
  void allocate();
  struct Place {
    std::size_t bucket;
    Segment segment;
  };
  const Place& place(int param) const { return places_[param]; }

  void fill(int param, std::size_t row, std::uint64_t seed);

  Device device_;
  Precision precision_;
  std::vector<Storage> table_;
  std::size_t main_row_;
  Layout layout_;
  std::vector<ParamSpec> specs_;
  std::vector<Shape> shapes_;  // in memory
  std::vector<Tensor> values_;
  std::deque<GradState> grads_;  // stable addresses: layers point at them
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;                           // by parameter
  std::map<int, std::vector<std::size_t>> buckets_of_;  // by unit
  std::vector<Buffer> memory_;                          // by row of the table
};

}  // namespace mtl
