#include "models/torch_dist_buffers.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str.h"
#include "models/canonical.h"
#include "models/megatron_config.h"
#include "models/megatron_matrix.h"
#include "models/megatron_stages.h"

namespace mtl {

namespace {

/// The modules of a layer in the order in which megatron-core makes them: in the local implementation, and with
/// Transformer Engine, where a norm is part of the next linear. A module has a weight, and then possibly a bias.
constexpr const char* kLocalOrder[] = {
    "norm1", "attention.out", "attention.qkv", "attention.q_norm", "attention.k_norm", "norm2", "mlp.up", "mlp.down"};
constexpr const char* kEngineOrder[] = {"attention.out",    "norm1", "attention.qkv", "attention.q_norm",
                                        "attention.k_norm", "norm2", "mlp.up",        "mlp.down"};

class BufferList {
 public:
  BufferList(const GptConfig& config, PickleValue args, std::int64_t vocabulary_rows)
      : config_(config),
        args_(args),
        vocabulary_rows_(vocabulary_rows),
        stages_(megatron_stages(args, config.num_layers)) {
    tensor_ = std::max<std::int64_t>(1, megatron_parallel_sizes(args).first);
    if (tensor_ > 1 << 16) fail(Exit::bad_data, "the args state ", tensor_, " tensor parallel ranks");
    for (const CanonicalTensor& one : canonical_tensors(config)) shapes_.emplace(one.name, one.shape);
    const std::optional<PickleValue> implementation = args.find("transformer_impl");
    is_local_ = implementation && implementation->is(PickleKind::text) && implementation->as_text() == "local";
  }

  std::vector<DistBuffer> make() const {
    std::vector<DistBuffer> out;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (std::int64_t rank = 0; rank < tensor_; ++rank) add_rank(stage, rank, out);
    }
    return out;
  }

 private:
  /// Appends the buffers of a rank's chunks. The size of buckets may depend on the elements of all of them.
  void add_rank(std::size_t stage, std::int64_t rank, std::vector<DistBuffer>& out) const {
    std::vector<std::vector<MegatronBufferParam>> params(stages_[stage].size());
    std::int64_t elements = 0;
    const std::size_t first = out.size();
    for (std::size_t chunk = 0; chunk < params.size(); ++chunk) {
      out.push_back({.group = static_cast<std::int64_t>(stage) * tensor_ + rank,
                     .chunk = static_cast<std::int64_t>(chunk),
                     .buffer = {},
                     .params = {}});
      elements += add_params(stage, chunk, rank, params[chunk], out.back().params);
    }
    for (std::size_t chunk = 0; chunk < params.size(); ++chunk) {
      DistBuffer& one = out[first + chunk];
      const auto bucket_size = megatron_bucket_size(args_, static_cast<int>(stage), chunk, elements);
      one.buffer = megatron_buffer(params[chunk], bucket_size, kMegatronAlignment);
      for (std::size_t i = 0; i < one.params.size(); ++i) one.params[i].range = one.buffer.ranges[i];
    }
  }

  /// Appends a chunk's parameters to both lists. Returns the number of their elements.
  std::int64_t add_params(std::size_t stage, std::size_t chunk, std::int64_t rank,
                          std::vector<MegatronBufferParam>& params, std::vector<DistBufferParam>& out) const {
    std::int64_t elements = 0;
    const bool is_shared = config_.tied_embeddings && stages_.size() > 1;
    for (const std::string& name : names_on(stage, chunk)) {
      const bool is_copy = name == kOutputLayer && is_shared;
      DistBufferParam param = param_of(is_copy ? kTokenEmbedding : name, rank);
      if (is_copy) param.name.clear();
      std::int64_t count = 0;
      for (const Rectangle& part : param.parts) count += part.count();
      params.push_back({.elements = count, .has_own_bucket = is_shared && (is_copy || name == kTokenEmbedding)});
      elements += count;
      out.push_back(std::move(param));
    }
    if (params.empty())
      fail(Exit::bad_data, "chunk ", chunk, " of pipeline stage ", stage,
           " has no parameters, which mtl does not read");
    return elements;
  }

  /// Returns the canonical names of a chunk's parameters in module order. In the last chunk of several stages,
  /// "output.weight" may be a copy of the token embedding.
  std::vector<std::string> names_on(std::size_t stage, std::size_t chunk) const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& module) {
      for (const char* kind : {".weight", ".bias"}) {
        if (shapes_.contains(module + kind)) names.push_back(module + kind);
      }
    };
    if (stage == 0 && chunk == 0) add("embedding.tokens"), add("embedding.positions");
    const MegatronLayers layers = stages_[stage][chunk];
    for (std::int64_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
      for (const char* module : is_local_ ? kLocalOrder : kEngineOrder) add(cat("layers.", layer, ".", module));
    }
    if (stage + 1 < stages_.size() || chunk + 1 < stages_[stage].size()) return names;
    add("final_norm");
    if (!config_.tied_embeddings || stages_.size() > 1) names.push_back(kOutputLayer);
    return names;
  }

  DistBufferParam param_of(const std::string& name, std::int64_t rank) const {
    CanonicalTensor canonical{name, shapes_.at(name)};
    if (is_vocabulary(name)) canonical.shape[0] = vocabulary_rows_;
    const StoredMatrix matrix = megatron_matrices(canonical, whole_slice(canonical.shape), {}).front();
    const std::int64_t rows = matrix.rows(), columns = matrix.columns;
    const MegatronSplit split = parse_megatron_name(megatron_core_name(name, true))->split;
    DistBufferParam out{.name = name, .range = {}, .parts = {}};
    const std::int64_t halves = matrix.factors.size() == 2 ? 2 : 1;  // of a gated MLP: gate and up
    if ((split == MegatronSplit::rows && rows % (halves * tensor_) != 0) ||
        (split == MegatronSplit::columns && columns % tensor_ != 0))
      fail(Exit::bad_data, "the size of '", name, "' is not a multiple of the ", tensor_, " tensor parallel ranks");
    if (split == MegatronSplit::rows) {
      const std::int64_t part = rows / halves / tensor_;
      for (std::int64_t half = 0; half < halves; ++half) {
        const std::int64_t begin = half * (rows / halves) + rank * part;
        out.parts.push_back({begin, begin + part, 0, columns});
      }
    } else if (split == MegatronSplit::columns) {
      const std::int64_t part = columns / tensor_;
      out.parts.push_back({0, rows, rank * part, (rank + 1) * part});
    } else {
      out.parts.push_back({0, rows, 0, columns});
      out.is_replica = rank > 0;
    }
    return out;
  }

  const GptConfig& config_;
  PickleValue args_;
  std::int64_t vocabulary_rows_, tensor_ = 1;
  std::vector<std::vector<MegatronLayers>> stages_;
  bool is_local_ = false;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace

std::vector<DistBuffer> torch_dist_buffers(const GptConfig& config, PickleValue args, std::int64_t vocabulary_rows) {
  return BufferList(config, args, vocabulary_rows).make();
}

void add_rank_range(const StoredMatrix& matrix, const std::vector<Rectangle>& parts, std::int64_t begin,
                    std::int64_t end, std::size_t file, std::int64_t offset, std::vector<TensorPiece>& pieces) {
  std::int64_t first = 0;  // element of the rank's part
  for (const Rectangle& part : parts) {
    const std::int64_t count = part.count();
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + count);
    if (from < to) add_range(matrix, part, from - first, to - first, file, offset + from - begin, pieces);
    first += count;
  }
}

}  // namespace mtl
