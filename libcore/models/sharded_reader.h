// Base class of the readers of Megatron-LM's torch checkpoints and of DeepSpeed's, which merge the shards of all tensor
// parallel ranks into canonical tensors (sharded_model.h, megatron_matrix.h).
#pragma once

#include <optional>
#include <set>
#include <string>

#include "models/mapped_reader.h"
#include "models/megatron_config.h"
#include "models/megatron_matrix.h"
#include "models/sharded_model.h"

namespace mtl {

class ShardedReader : public MappedReader {
 public:
  /// Also compares main weights in the optimizer's files with the parameter's weights.
  void verify_slice(std::size_t index, const Slice& slice) const override;
  std::string identity() const override;

 protected:
  /// What differs between the formats.
  struct Format {
    const char* described_by;  // what describes the model, for messages
    const char* mismatch;      // end of the message for main weights that do not round to the weights
    bool states_divisor;       // a message about shards that do not divide an axis repeats their number
    bool has_rank_folders;     // files of ranks have one name, in folders of their own
  };

  ShardedReader(const Format& format, const std::string& checkpoint) : path_(checkpoint), format_(format) {}
  virtual const ShardedModel& model() const = 0;

  /// Returns what megatron_config() derives the configuration from.
  MegatronShapes shapes() const;
  /// Returns a parameter's size along an axis, summed over all ranks, or 0 if the parameter or axis does not exist.
  std::int64_t extent(const std::string& name, std::size_t axis) const {
    return axis_size(model().shape_of(name), axis);
  }
  /// Returns the parameter, or the state, that a canonical tensor has in the files. Throws if there is none.
  const ShardedParameter& required(const ShardedParameters& parameters, const std::string& canonical) const;
  /// Adds the pieces of one rank's shard. Throws if it does not fit the model.
  void add_pieces(TensorMap& map, const CanonicalTensor& canonical, const ShardedParameter& parameter,
                  const StoredShard& shard, int rank, const MegatronRows& rows) const;
  /// Adds the pieces of all ranks' shards or, if they are copies, of rank 0's.
  void add_pieces(TensorMap& map, const CanonicalTensor& canonical, const ShardedParameter& parameter,
                  const MegatronRows& rows) const;
  /// Throws unless a shard has a dtype that mtl reads, that of rank 0's.
  void check_dtype(const ShardedParameter& parameter, const StoredShard& shard) const;
  /// Throws if a parameter in the files is not part of the model that the configuration describes.
  void check_known() const;
  /// Throws if a parameter's main weights do not round to the weights of the same rank: then a file of the optimizer is
  /// of another rank or checkpoint, and so are its moments. Does nothing for a name without main weights, and for one
  /// that an earlier call has checked.
  void check_main(const std::string& name, const ShardedParameter& weights) const;
  /// Throws Error(bad_data) with the shard's file and the parameter's name in it.
  template <class... Parts>
  [[noreturn]] static void refuse(const ShardedParameter& parameter, const StoredShard& shard, const Parts&... parts) {
    refuse_tensor(shard.path(), parameter.name, parts...);
  }

  const std::string path_;
  ShardedParameters main_;  // fp32 weights in the optimizer's files that must round to the weights; empty: none

 private:
  const Format format_;
  mutable std::set<std::string> checked_main_;
};

}  // namespace mtl
