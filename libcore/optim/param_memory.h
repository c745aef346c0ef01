// Memory for all parameters, in flat buckets. A table has one row for each kind of storage: values, gradients, the
// update rule's states, and main weights. bucket_layout.h says how parameters form buckets and groups.
//
// If the layout shards gradients (ZeRO-2), the row of gradients has only the owned ranges. Backward then writes to
// working memory: a ring of two buffers that groups take in turn. After every micro-batch, a group's gradients are
// summed over the replicas and added to the owned range. If the layout also shards values (ZeRO-3), the row of values
// has only the owned ranges, too, and layers read working memory: a second ring, to which a group's values are gathered
// when one of its units is leased. The content of a buffer is undefined while no unit of its group is leased.
//
// Each buffer in a ring is as large as its largest group. The group that has a tied embedding has a third buffer,
// because the embedding and the head both use it. Its gradients are reduced once a step.
//
// This rank owns a range of each bucket, or the entire bucket if the optimizer state is not sharded. It keeps states
// and makes updates only for the owned range. Layers access parameters through views, which are bound once.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "device/copy.h"
#include "device/memory.h"
#include "device/precision.h"
#include "layout/layout.h"
#include "layout/slice.h"
#include "nn/param.h"
#include "optim/bucket_layout.h"
#include "optim/update_rule.h"

namespace mtl {

/// How a ParamMemory stores the parameters of a layout.
struct ParamStorage {
  std::int64_t bucket_elements = 40'000'000;  // start a new group of units at this size (bucket_layout.h)
  bool optimizer_on_host = false;             // keep main weights and optimizer states in host memory
  std::string optimizer_folder = {};          // keep them in files in this folder instead; empty: no
};

/// Returns the rows that a ParamMemory with these arguments stores for every parameter.
std::vector<Storage> storage_table(const Precision& precision, const RuleSet& rules, const Layout& layout,
                                   const ParamStorage& storage = {});

class ParamMemory {
 public:
  /// Allocates memory for every parameter that `visit_all` visits, and binds the layers' views. Parameters are numbered
  /// in the order they are visited; a tied embedding may be visited twice, by the embedding and by the head. All values
  /// are 0 until initialize() or the checkpoint loader sets them. Without rules (evaluation), there are no states, no
  /// gradients and no main weights.
  ParamMemory(Device device, Precision precision, RuleSet rules,
              const std::function<void(const ParamVisitor&)>& visit_all, Layout layout = {},
              const ParamStorage& storage = {});
  ParamMemory(const ParamMemory&) = delete;

  int size() const { return static_cast<int>(specs_.size()); }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const Layout& layout() const { return layout_; }
  /// The device of the run.
  Device device() const { return device_; }
  /// Returns the memory that holds a table row. The host needs it to copy the row (HostView).
  Location location_of(std::size_t row) const;
  /// Returns the file that contains a part of a row.
  FileMemory* file_of(const Tensor& part) const;
  const Precision& precision() const { return precision_; }
  const RuleSet& rules() const { return rules_; }
  /// Returns the row that the optimizer updates, and that checkpoints store as the parameters: the main weights if
  /// there are any, otherwise the values.
  std::size_t main_row() const { return main_row_; }
  /// This rank's part of the entire parameter, without padding.
  Slice slice(int param) const;
  /// The part of slice() that this rank owns and updates. Can be empty.
  Slice owned_slice(int param) const;
  /// As writes() in layout/ownership.h, for this rank.
  bool writes(int param) const { return mtl::writes(specs_[param].ownership, layout_.grid, layout_.rank); }
  /// The axes whose ranks update different ranges.
  AxisSet owners() const { return layout_.owners(); }
  /// This rank's part of the value or the gradient, including padding rows. In a ring, valid only during a lease.
  Tensor value(int param) const { return values_[param]; }
  Tensor grad(int param) const { return grads_[param].tensor; }
  /// True if the gradient is in the ring.
  bool is_in_ring(int param) const { return parts_.buckets[place(param).bucket].gradient_buffer.has_value(); }
  /// The gradient of the head's use of a tied embedding, if it has a bucket of its own.
  Tensor head_grad() const { return head_grad_.tensor; }

  /// The rows of the table.
  const std::vector<Storage>& table() const { return table_; }
  /// False if the row is a state of a rule that does not update the parameter.
  bool holds(int param, std::size_t row) const {
    return is_row_of(parts_.buckets[place(param).bucket], table_.at(row));
  }
  /// row_part() returns the part of a parameter that a table row holds, as a flat tensor with padding last. row_slice()
  /// returns the corresponding slice, without padding. Depending on the row's extent, this is this rank's entire part
  /// or only the owned part, or nothing unless holds().
  Tensor row_part(int param, std::size_t row) const;
  Slice row_slice(int param, std::size_t row) const;
  /// The owned part of a parameter in a table row, as a flat tensor.
  Tensor owned(int param, std::size_t row) const;
  /// Returns the size of a row, summed over all buckets, in bytes.
  std::size_t bytes(std::size_t row) const;
  /// True if the row of gradients has only the owned ranges.
  bool shards_gradients() const { return has_gradients() && table_[kGradients].extent == Extent::owned; }
  /// Returns all memory of a row.
  const Buffer& row_memory(std::size_t row) const { return memory_.at(row); }
  /// Returns the working memory for values or gradients, which is empty if that row of the table is whole.
  const Buffer& work_memory(Role role) const { return role == Role::values ? value_work_ : gradient_work_; }
  std::size_t work_bytes(Role role) const { return work_memory(role).bytes(); }

  std::vector<Bucket>& buckets() { return parts_.buckets; }
  const std::vector<Bucket>& buckets() const { return parts_.buckets; }
  /// Returns the buckets that hold a unit's parameters (ParamSpec::unit) or their gradients, as indices into buckets().
  const std::vector<std::size_t>& buckets_of(int unit) const { return parts_.of_unit.at(unit); }
  const std::vector<UnitGroup>& groups() const { return parts_.groups; }
  /// Returns the group of a unit's parameters, as an index into groups().
  std::size_t group_of(int unit) const { return parts_.buckets[buckets_of(unit).front()].group; }
  bool has_gradients() const { return table_.size() > kGradients; }

  /// Must be called before the first micro-batch of a step. The next write to each gradient then overwrites it instead
  /// of adding to it.
  void begin_step();
  /// The same for the gradients in one bucket, before a micro-batch uses its buffer in the ring.
  void begin_writing(const Bucket& bucket);
  /// Must be called after the last micro-batch. Throws an Error with the parameter's name if a gradient has not been
  /// written.
  void check_all_written() const;

  /// Returns the map from a parameter's owned elements to their indices in the entire tensor. Throws if the parameter
  /// is sharded along more than one axis.
  ElementMap owned_elements(int param) const;

  /// Draws initial values and main weights with Philox. They depend only on the seed and on each parameter's name. They
  /// are rounded to precision().load and then to the dtype of their row.
  void initialize(std::uint64_t seed);

 private:
  static bool is_row_of(const Bucket& bucket, const Storage& row) {
    return row.role != StorageRole::states || row.rule == bucket.key.traits.rule;
  }
  void allocate(const std::string& folder);
  Buffer make_work(std::size_t row);
  const BucketLayout::Place& place(int param) const { return parts_.places[param]; }
  void fill(int param, const std::vector<std::size_t>& rows, std::uint64_t seed);

  Device device_;
  Precision precision_;
  RuleSet rules_;
  std::vector<Storage> table_;
  std::size_t main_row_;
  Layout layout_;
  std::vector<ParamSpec> specs_;
  std::vector<Shape> shapes_;  // shapes of this rank's parts, with padding rows
  std::vector<Tensor> values_;
  std::deque<GradState> grads_;  // a deque, because layers keep pointers to the elements
  GradState head_grad_;          // see head_grad()
  BucketLayout parts_;
  std::vector<Buffer> memory_;  // by row of the table
  Buffer value_work_, gradient_work_;
};

}  // namespace mtl
