#include "ckpt/torch_dist_buffers.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str.h"
#include "ckpt/canonical.h"
#include "ckpt/megatron_config.h"

namespace mtl {

namespace {

/// The modules of a layer in the order in which megatron-core makes them: in the local implementation, and with
/// Transformer Engine, where a norm is part of the next linear. A module has a weight, and then possibly a bias.
constexpr const char* kLocalOrder[] = {
    "norm1", "attention.out", "attention.qkv", "attention.q_norm", "attention.k_norm", "norm2", "mlp.up", "mlp.down"};
constexpr const char* kEngineOrder[] = {"attention.out",    "norm1", "attention.qkv", "attention.q_norm",
                                        "attention.k_norm", "norm2", "mlp.up",        "mlp.down"};

constexpr const char* kUnevenArgs[] = {"virtual_pipeline_model_parallel_size", "decoder_first_pipeline_num_layers",
                                       "decoder_last_pipeline_num_layers", "pipeline_model_parallel_layout",
                                       "num_layers_per_virtual_pipeline_stage"};
constexpr const char* kUnevenSwitches[] = {"account_for_embedding_in_pipeline_split",
                                           "account_for_loss_in_pipeline_split"};

bool is_given(PickleValue args, const char* name) {
  const std::optional<PickleValue> value = args.find(name);
  return value && !value->is(PickleKind::none) && !(value->is(PickleKind::boolean) && !value->as_bool());
}

void refuse_uneven(PickleValue args) {
  std::vector<const char*> names(std::begin(kUnevenArgs), std::end(kUnevenArgs));
  names.insert(names.end(), std::begin(kUnevenSwitches), std::end(kUnevenSwitches));
  for (const char* name : names) {
    if (is_given(args, name))
      fail(Exit::bad_data, "args.", name,
           " is given, with which mtl does not read Adam's moments in this layout; save ",
           "the checkpoint with --dist-ckpt-optim-fully-reshardable");
  }
}

class BufferList {
 public:
  BufferList(const GptConfig& config, PickleValue args, std::int64_t vocabulary_rows)
      : config_(config), args_(args), vocabulary_rows_(vocabulary_rows) {
    const auto [tensor, pipeline] = megatron_parallel_sizes(args);
    tensor_ = std::max<std::int64_t>(1, tensor), stages_ = std::max<std::int64_t>(1, pipeline);
    if (tensor_ > 1 << 16 || stages_ > config.num_layers || config.num_layers % stages_ != 0)
      fail(Exit::bad_data, "the args state ", tensor_, " x ", stages_, " model parallel ranks for ", config.num_layers,
           " layers, which mtl does not read in this layout");
    for (const CanonicalTensor& one : canonical_tensors(config)) shapes_.emplace(one.name, one.shape);
    const std::optional<PickleValue> implementation = args.find("transformer_impl");
    is_local_ = implementation && implementation->is(PickleKind::text) && implementation->as_text() == "local";
  }

  std::vector<DistBuffer> make() const {
    std::vector<DistBuffer> out;
    for (std::int64_t stage = 0; stage < stages_; ++stage) {
      for (std::int64_t rank = 0; rank < tensor_; ++rank) out.push_back(buffer_of(stage, rank));
    }
    return out;
  }

 private:
  DistBuffer buffer_of(std::int64_t stage, std::int64_t rank) const {
    DistBuffer out{.group = stage * tensor_ + rank, .buffer = {}, .params = {}};
    std::vector<MegatronBufferParam> params;
    std::int64_t elements = 0;
    const bool is_shared = config_.tied_embeddings && stages_ > 1;
    for (const std::string& name : names_on(stage)) {
      const bool is_copy = name == "output.weight" && is_shared;
      DistBufferParam param = param_of(is_copy ? "embedding.tokens.weight" : name, rank);
      if (is_copy) param.name.clear();
      std::int64_t count = 0;
      for (const Rectangle& part : param.parts)
        count += (part.row_end - part.row_begin) * (part.column_end - part.column_begin);
      params.push_back(
          {.elements = count, .has_own_bucket = is_shared && (is_copy || name == "embedding.tokens.weight")});
      elements += count;
      out.params.push_back(std::move(param));
    }
    out.buffer =
        megatron_buffer(params, megatron_bucket_size(args_, static_cast<int>(stage), 0, elements), kMegatronAlignment);
    for (std::size_t i = 0; i < out.params.size(); ++i) out.params[i].place = out.buffer.places[i];
    return out;
  }

  /// Returns the canonical names of a stage's parameters in module order. On the last of several stages,
  /// "output.weight" may be a copy of the token embedding.
  std::vector<std::string> names_on(std::int64_t stage) const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& module) {
      for (const char* kind : {".weight", ".bias"}) {
        if (shapes_.contains(module + kind)) names.push_back(module + kind);
      }
    };
    if (stage == 0) add("embedding.tokens"), add("embedding.positions");
    const std::int64_t layers = config_.num_layers / stages_;
    for (std::int64_t layer = stage * layers; layer < (stage + 1) * layers; ++layer) {
      for (const char* module : is_local_ ? kLocalOrder : kEngineOrder) add(cat("layers.", layer, ".", module));
    }
    if (stage + 1 < stages_) return names;
    add("final_norm");
    if (!config_.tied_embeddings || stages_ > 1) names.push_back("output.weight");
    return names;
  }

  DistBufferParam param_of(const std::string& name, std::int64_t rank) const {
    std::vector<std::int64_t> shape = shapes_.at(name);
    if (name == "embedding.tokens.weight" || name == "output.weight") shape[0] = vocabulary_rows_;
    const bool is_gated = config_.gated_mlp && name.find(".mlp.up.") != std::string::npos;
    const int row_axes = name.find(".attention.qkv.") != std::string::npos ? 3 : is_gated ? 2 : 1;
    std::int64_t rows = 1;
    for (int axis = 0; axis < row_axes; ++axis) rows *= shape[axis];
    const std::int64_t columns = std::ssize(shape) > row_axes ? shape[row_axes] : 1;
    const MegatronSplit split = parse_megatron_name(megatron_core_name(name, true))->split;
    DistBufferParam out{.name = name, .place = {}, .parts = {}};
    const std::int64_t halves = is_gated ? 2 : 1;
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
  std::int64_t vocabulary_rows_, tensor_ = 1, stages_ = 1;
  bool is_local_ = false;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace

std::vector<DistBuffer> torch_dist_buffers(const GptConfig& config, PickleValue args, std::int64_t vocabulary_rows) {
  refuse_uneven(args);
  return BufferList(config, args, vocabulary_rows).make();
}

void add_rank_range(const StoredMatrix& matrix, const std::vector<Rectangle>& parts, std::int64_t begin,
                    std::int64_t end, std::size_t file, std::int64_t offset, std::vector<TensorPiece>& pieces) {
  std::int64_t first = 0;  // element of the rank's part
  for (const Rectangle& part : parts) {
    const std::int64_t count = (part.row_end - part.row_begin) * (part.column_end - part.column_begin);
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + count);
    if (from < to) add_range(matrix, part, from - first, to - first, file, offset + from - begin, pieces);
    first += count;
  }
}

}  // namespace mtl
