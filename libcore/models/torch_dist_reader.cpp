#include "models/torch_dist_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/count_of.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "formats/stored_matrix.h"
#include "models/canonical.h"
#include "models/dcp_reader.h"
#include "models/hf_config.h"
#include "models/megatron_common.h"
#include "models/megatron_config.h"
#include "models/megatron_matrix.h"
#include "models/megatron_names.h"
#include "models/megatron_optimizer.h"
#include "models/torch_dist_buffers.h"
#include "models/torch_dist_segments.h"

namespace mtl {

namespace {

constexpr std::string_view kStateKey = "optimizer.state.";

/// A tensor of the folder that contains a parameter or a state of one, or a stack of such tensors.
struct DistTensor {
  const std::string* key = nullptr;
  const DcpTensor* tensor = nullptr;
  std::optional<std::int64_t> layer;  // index along the first axis of a stack; empty: not a stack

  /// Returns the shape without the axis of the stack.
  std::vector<std::int64_t> shape() const {
    return {tensor->shape.begin() + (layer && !tensor->shape.empty() ? 1 : 0), tensor->shape.end()};
  }
};

/// Throws unless metadata.json names the format that mtl reads.
void check_backend(const std::string& folder) {
  const std::string path = cat(folder, "/", kDistMetadataName);
  if (!file_exists(path)) fail(Exit::bad_data, path, " is missing; copy all files of the checkpoint");
  const Json json = Json::read(path);
  const auto text = [&](const char* key, const char* fallback) {
    const Json* value = json.is_object() ? json.find(key) : nullptr;
    return value == nullptr ? std::string(fallback) : value->is_string() ? value->as_string() : value->dump();
  };
  const std::pair<const char*, const char*> expected[] = {{"sharded_backend", "torch_dist"},
                                                          {"sharded_backend_version", "1"},
                                                          {"common_backend", "torch"},
                                                          {"common_backend_version", "1"}};
  for (const auto& [key, value] : expected) {
    const std::string found = text(key, std::string_view(key).starts_with("common") ? value : "(none)");
    if (found != value)
      fail_at(Exit::bad_data, path, key, " is ", printable_text(found.substr(0, 100)), ", but mtl reads only ", value,
              "; load the checkpoint with Megatron-LM and save it with --ckpt-format torch_dist");
  }
}

/// Returns a key with a layer number in place of none: "decoder.layers.mlp.x" -> "decoder.layers.0.mlp.x". Returns ""
/// if the key has no layers.
std::string numbered_key(const std::string& key) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = key.find(kLayers);
  if (at == std::string::npos) return "";
  return key.substr(0, at + kLayers.size()) + "0." + key.substr(at + kLayers.size());
}

/// True for entries without parameters: optimizer state, and the state of random number generators.
bool is_other_state(const std::string& key) { return starts_with(key, "optimizer.") || starts_with(key, "rng_state"); }

class TorchDistReader : public DcpReader {
 public:
  TorchDistReader(const std::string& path, const ModelSupplement& given, Console& console)
      : DcpReader(path), common_(dcp()), segments_(dcp()) {
    collect_parameters();
    common_.args() ? read_args(given, console) : read_description(given, console);
    add_model();
    check_complete();
  }

 private:
  void read_args(const ModelSupplement& given, Console& console) {
    constexpr double kVersion = 3;
    read_megatron_args(*this, folder, common_.args(), kVersion, shapes(), given, console);
  }

  /// Reads the configuration of a checkpoint without args. Without --hf-config, assumes Megatron-LM's defaults if the
  /// tensors are those of a GPT with position embeddings.
  void read_description(const ModelSupplement& given, Console& console) {
    if (!given.hf_config.empty()) {
      HfDescription described = read_hf_description(given.hf_config);
      config = described.config;
      dropout = described.dropout;
      hf_config = std::move(described.hf_config);
      const std::int64_t rows = extent(kTokenEmbedding, 0);
      if (config.num_layers != layers_ || config.vocab_size > rows)
        fail(Exit::bad_data, described.path, ": the model has ", count_of(config.num_layers, "layer"), " and ",
             config.vocab_size, " tokens, but ", folder, " has ", layers_, " and ", rows,
             "; use the config.json of this model");
      return;
    }
    if (shapes().positions > 0) return read_args(given, console);
    const std::string yaml = folder + "/run_config.yaml";
    fail_at(Exit::bad_data, folder, "the checkpoint has no args, as those of Megatron-Bridge and NeMo have none",
            file_exists(yaml) ? cat("; its model is described in ", yaml) : "",
            "; describe the model for mtl by a config.json of transformers: --hf-config PATH");
  }

  /// Finds the tensors that are parameters, by canonical name.
  void collect_parameters() {
    for (const auto& [key, tensor] : dcp().tensors()) {
      if (is_other_state(key) || is_megatron_buffer(key)) continue;
      std::optional<MegatronName> parsed = parse_megatron_name(key);
      const bool is_stack = !parsed;
      if (is_stack) parsed = parse_megatron_name(numbered_key(key));
      if (!parsed) refuse_tensor(folder, key, "is not a GPT parameter that mtl supports");
      std::int64_t first = 0, count = 1;
      if (parsed->layer && is_stack) {
        count = tensor.shape.empty() ? 0 : tensor.shape[0];
        if (count > std::ssize(tensor.boxes))
          refuse_tensor(folder, key, "has ", count_of(count, "layer"), " in ", count_of(tensor.boxes.size(), "chunk"),
                        ", but Megatron-LM writes a chunk per layer; use another checkpoint");
      } else if (parsed->layer) {
        first = *parsed->layer;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const std::string name = parsed->layer ? cat("layers.", first + i, ".", parsed->canonical) : parsed->canonical;
        const DistTensor part{&key, &tensor, is_stack ? std::optional(i) : std::nullopt};
        if (!parameters_.emplace(name, part).second) refuse_tensor(folder, key, "is stored twice, under two names");
        if (parsed->layer) layers_ = std::max(layers_, first + i + 1);
      }
    }
    if (layers_ > std::ssize(parameters_))
      fail_at(Exit::bad_data, folder, "there are ", count_of(parameters_.size(), "parameter"),
              ", too few for a model with ", count_of(layers_, "layer"));
  }

  std::optional<std::vector<std::int64_t>> shape_of(const std::string& name) const {
    const auto found = parameters_.find(name);
    return found == parameters_.end() ? std::nullopt : std::optional(found->second.shape());
  }

  std::int64_t extent(const std::string& name, std::size_t axis) const { return axis_size(shape_of(name), axis); }

  MegatronShapes shapes() const {
    return megatron_shapes(layers_, [&](const std::string& name) { return shape_of(name); });
  }

  /// Adds all parameters and, if there is a usable one, the optimizer state. The weights are then the optimizer's main
  /// weights, where it has them.
  void add_model() {
    std::vector<State> weights, moments;
    const std::vector<CanonicalTensor> canonical = canonical_tensors(config);
    for (const CanonicalTensor& one : canonical) {
      const auto found = parameters_.find(one.name);
      if (found == parameters_.end()) refuse_tensor(folder, one.name, "is missing");
      weights.push_back(boxes_of("param.", one, found->second));
    }
    for (const auto& [name, part] : parameters_) {
      const bool is_known = std::ranges::find(canonical, name, &CanonicalTensor::name) != canonical.end();
      if (!is_known)
        refuse_tensor(folder, *part.key, "does not fit the model that ",
                      common_.args() ? "the checkpoint's args describe" : "the configuration describes");
    }
    const bool has_optimizer = read_optimizer(canonical, weights, moments);
    for (State& one : weights) add_tensor(std::move(one));
    for (State& one : moments) add_tensor(std::move(one));
    if (!has_optimizer) return;
    const std::string problem = data_problem([&] {
      state = megatron_train_state(common_.root(), common_.args(),
                                   optimizer_steps_ > 0 ? optimizer_steps_ : common_.optimizer_steps());
    });
    if (optimizer_problem.empty()) optimizer_problem = problem;
  }

  /// Collects the moments, and replaces the weights by the optimizer's main weights. Returns false if there is no
  /// optimizer state. If it cannot be used, sets optimizer_problem.
  bool read_optimizer(const std::vector<CanonicalTensor>& canonical, std::vector<State>& weights,
                      std::vector<State>& moments) {
    const auto first = dcp().tensors().lower_bound("optimizer.");
    const bool has_tensors = first != dcp().tensors().end() && starts_with(first->first, "optimizer.");
    const auto object = dcp().objects().lower_bound("optimizer.");
    const bool has_objects = object != dcp().objects().end() && starts_with(object->first, "optimizer.");
    if (!has_tensors && !has_objects) return false;
    optimizer_problem = data_problem([&] {
      common_.check_layout();
      std::vector<State> states, main;
      const bool is_flat = !has_tensors || starts_with(first->first, kBufferKey);
      if (is_flat) {
        read_buffers(canonical, states, main);
        compare_main(weights, main);
      }
      for (const CanonicalTensor& one : canonical) {
        if (is_flat) break;
        const DistTensor& weight = parameters_.at(one.name);
        for (const char* kind : {"exp_avg", "exp_avg_sq"})
          states.push_back(state_of(cat(kind, "."), one, weight, state_tensor(kind, weight)));
        for (const char* kind : {"fp32_param", "param"}) {
          if (dcp().find(cat(kStateKey, kind, ".", *weight.key)) != nullptr)
            main.push_back(state_of("param.", one, weight, state_tensor(kind, weight)));
        }
      }
      if (!main.empty() && main.size() != weights.size())
        fail_at(Exit::bad_data, folder, "the optimizer has main weights for ", main.size(), " of ", weights.size(),
                " parameters");
      moments = std::move(states);
      if (!main.empty()) weights = std::move(main);
    });
    return true;
  }

  /// Collects moments and main weights that are stored by gradient buffer.
  void read_buffers(const std::vector<CanonicalTensor>& canonical, std::vector<State>& states,
                    std::vector<State>& main) {
    if (!common_.args())
      fail_at(Exit::bad_data, folder, "Adam's moments are stored by gradient buffer, which mtl reads only with args");
    const std::int64_t rows = extent(kTokenEmbedding, 0);
    std::map<std::string, StoredMatrix> matrices;
    for (const CanonicalTensor& one : canonical)
      matrices.emplace(one.name, checked_matrix(one, parameters_.at(one.name)));
    std::vector<DistBuffer> buffers;
    with_prefix([&] { buffers = torch_dist_buffers(config, *common_.args(), rows); }, folder, ": ");
    for (const char* kind : {"exp_avg", "exp_avg_sq", "param"}) {
      std::map<std::string, TensorMap> maps;
      for (const DistBuffer& buffer : buffers) {
        const std::vector<BufferSegment> segments = segments_.of(buffer, kind);
        for (const DistBufferParam& param : buffer.params) {
          if (param.is_replica || param.name.empty()) continue;
          add_segments(segments, param, matrices.at(param.name), maps[param.name]);
        }
      }
      std::vector<State>& to = std::string_view(kind) == "param" ? main : states;
      for (const CanonicalTensor& one : canonical)
        to.emplace_back(SavedTensor{cat(kind, ".", one.name), StoredDType::f32, one.shape}, std::move(maps[one.name]));
    }
    optimizer_steps_ = segments_.optimizer_steps();
  }

  /// Throws unless the first elements of all main weights are those of the weights, rounded: if the modules are in
  /// another order than we assume, this and not the files shows it.
  void compare_main(const std::vector<State>& weights, const std::vector<State>& main) const {
    constexpr std::int64_t kElements = 64;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto& [tensor, map] = weights[i];
      if (!is_model_dtype(tensor.dtype)) continue;
      Slice slice = whole_slice(tensor.shape);
      slice.end = std::min(slice.end, kElements);
      std::vector<std::byte> stored(slice.count() * bits_of(tensor.dtype) / 8);
      std::vector<std::byte> wide(slice.count() * sizeof(float));
      gather(map, tensor.dtype, slice, stored);
      gather(main[i].second, StoredDType::f32, slice, wide);
      if (!rounds_to(StoredDType::f32, wide, tensor.dtype, stored))
        fail_at(Exit::bad_data, folder, "the optimizer's main weights of '", tensor.name, "' differ from its weights, ",
                "as if Megatron-LM's modules were in another order than args.transformer_impl says; save the "
                "checkpoint with --dist-ckpt-optim-fully-reshardable");
    }
  }

  void add_segments(const std::vector<BufferSegment>& segments, const DistBufferParam& param,
                    const StoredMatrix& matrix, TensorMap& map) const {
    std::int64_t copied = 0;
    const auto first = std::ranges::upper_bound(segments, param.range.begin, {}, &BufferSegment::end);
    for (auto segment = first; segment != segments.end() && segment->begin < param.range.end; ++segment) {
      const std::int64_t begin = std::max(segment->begin, param.range.begin),
                         end = std::min(segment->end, param.range.end);
      if (!segment->may_span && end - begin != segment->end - segment->begin)
        refuse_tensor(folder, *segment->source.key,
                      "has a chunk that belongs to several parameters, as if the modules were in ",
                      "another order than args.transformer_impl says");
      add_rank_range(matrix, param.parts, begin - param.range.begin, end - param.range.begin, map.sources.size(),
                     begin - segment->begin, map.pieces);
      map.sources.push_back(segment->source);
      copied += end - begin;
    }
    if (copied != param.range.end - param.range.begin)
      fail_at(Exit::bad_data, folder, "the optimizer state has ", copied, " of the ",
              param.range.end - param.range.begin, " elements of '", param.name, "' on a model parallel rank");
  }

  DistTensor state_tensor(const char* kind, const DistTensor& weight) const {
    const auto found = dcp().tensors().find(cat(kStateKey, kind, ".", *weight.key));
    if (found == dcp().tensors().end()) refuse_tensor(folder, cat(kStateKey, kind, ".", *weight.key), "is missing");
    if (!is_model_dtype(found->second.dtype))
      refuse_tensor(folder, found->first, "is stored as ", name_of(found->second.dtype), ", which mtl does not read");
    return {&found->first, &found->second, weight.layer};
  }

  State state_of(const std::string& kind, const CanonicalTensor& canonical, const DistTensor& weight,
                 const DistTensor& stored) {
    return stored.tensor->shape == weight.tensor->shape ? boxes_of(kind, canonical, stored)
                                                        : parts_of(kind, canonical, weight, stored);
  }

  StoredMatrix checked_matrix(const CanonicalTensor& canonical, const DistTensor& stored) const {
    Slice whole = whole_slice(canonical.shape);
    if (is_vocabulary(canonical.name)) whole.size[0] = extent(canonical.name, 0);
    const StoredMatrix matrix = megatron_matrices(canonical, whole, {}).front();
    if (stored.shape() != matrix.shape())
      refuse_tensor(folder, *stored.key, "has shape ", shape_text(stored.shape()), stored.layer ? " in each layer" : "",
                    ", but the model needs ", shape_text(matrix.shape()));
    return matrix;
  }

  /// Returns a parameter or a state that is stored in its own shape.
  State boxes_of(const std::string& kind, const CanonicalTensor& canonical, const DistTensor& stored) {
    const StoredMatrix matrix = checked_matrix(canonical, stored);
    TensorMap map;
    for (const DcpBox* box : boxes_in_layer(stored))
      add_box(matrix, {.key = stored.key, .tensor = stored.tensor, .box = box}, stored.layer, map);
    return {SavedTensor{kind + canonical.name, stored.tensor->dtype, canonical.shape}, std::move(map)};
  }

  /// Returns a state of the layout fully_sharded_model_space: a weight of shape G is cut into counts[i] equal parts
  /// along each axis i, and each part is flattened. The state has the shape (counts..., elements of a part). Boxes cut
  /// the last axis anywhere.
  State parts_of(const std::string& kind, const CanonicalTensor& canonical, const DistTensor& weight,
                 const DistTensor& stored) {
    const StoredMatrix matrix = checked_matrix(canonical, weight);
    const std::vector<std::int64_t>&whole = weight.tensor->shape, &counts = stored.tensor->shape;
    std::int64_t length = 1;
    bool fits = counts.size() == whole.size() + 1;
    for (std::size_t axis = 0; fits && axis < whole.size(); ++axis) {
      fits = counts[axis] > 0 && whole[axis] % counts[axis] == 0;
      if (fits) length *= whole[axis] / counts[axis];
    }
    if (!fits || counts.back() != length || (stored.layer && counts[0] != whole[0]))
      refuse_tensor(folder, *stored.key, "has shape ", shape_text(counts), ", which does not fit the weight's, ",
                    shape_text(whole));
    const std::size_t axis = stored.layer ? 1 : 0;
    const std::int64_t rows = whole[axis] / counts[axis];
    const std::int64_t columns = matrix.column_axis >= 0 ? whole[axis + 1] / counts[axis + 1] : 1;
    TensorMap map;
    for (const DcpBox* box : boxes_in_layer(stored)) {
      const std::vector<std::int64_t>& at = box->slice.offset;
      const std::int64_t row = at[axis] * rows, column = matrix.column_axis >= 0 ? at[axis + 1] * columns : 0;
      if (box->slice.count() != box->slice.size.back())
        refuse_tensor(folder, *stored.key, "has a chunk that contains several parts of the weight");
      const Rectangle part{row, row + rows, column, column + columns};
      add_range(matrix, part, at.back(), at.back() + box->slice.count(), map.sources.size(), 0, map.pieces);
      map.sources.push_back({.key = stored.key, .tensor = stored.tensor, .box = box});
    }
    return {SavedTensor{kind + canonical.name, stored.tensor->dtype, canonical.shape}, std::move(map)};
  }

  /// Returns the boxes that contain elements of a layer or, outside stacks, all boxes.
  const std::vector<const DcpBox*>& boxes_in_layer(const DistTensor& stored) {
    std::vector<std::vector<const DcpBox*>>& layers = boxes_[stored.tensor];
    if (layers.empty()) {
      layers.resize(stored.layer ? layers_ : 1);
      for (const DcpBox& box : stored.tensor->boxes) {
        const std::int64_t first = stored.layer ? box.slice.offset[0] : 0;
        const std::int64_t end = stored.layer ? first + box.slice.size[0] : 1;
        for (std::int64_t layer = first; layer < std::min(end, layers_); ++layer) layers[layer].push_back(&box);
      }
    }
    return layers[stored.layer.value_or(0)];
  }

  MegatronCommon common_;
  std::map<std::string, DistTensor> parameters_;  // by canonical name
  std::int64_t layers_ = 0;
  std::int64_t optimizer_steps_ = 0;  // as stated beside gradient buffers; 0: not there
  BufferSegments segments_;
  std::map<const DcpTensor*, std::vector<std::vector<const DcpBox*>>> boxes_;  // by layer
};

}  // namespace

std::unique_ptr<TensorReader> open_torch_dist(const std::string& path, const ModelSupplement& given, Console& console) {
  check_backend(path);
  return std::make_unique<TorchDistReader>(path, given, console);
}

}  // namespace mtl
