#include "eval/model.h"

#include <numeric>

#include "base/memory_limits.h"
#include "device/copy.h"
#include "nn/model_params.h"

namespace mtl {

namespace {

/// Returns the number of token embedding rows in memory, padded so that a row of logits fills complete cache lines.
std::int64_t vocab_rows(const GptConfig& config) { return padded_vocab_size(config.vocab_size, 128, 1); }

/// Uses one dtype for weights, activations and the residual stream.
Precision precision_of(DType compute) { return {.compute = compute, .residual = compute, .main_params = compute}; }

/// Returns the configuration, for which there must be memory.
GptConfig fitting_config(const GptConfig& config, DType compute, Device device) {
  if (device == Device::cpu)
    require_memory(weight_bytes(config, compute), "the model's weights",
                   compute == DType::f32 ? "use --dtype bfloat16, or provide more memory" : "provide more memory");
  return config;
}

}  // namespace

std::size_t weight_bytes(const GptConfig& config, DType compute) {
  GptConfig padded = config;
  padded.vocab_size = vocab_rows(config);
  return static_cast<std::size_t>(parameter_count(padded)) * size_of(compute);
}

Model::Model(const ModelSource& source, int threads, DType compute, Device device)
    : config_(fitting_config(source.config(), compute, device)),
      stage_(make_stage(config_, {}, {.padded_vocab = vocab_rows(config_), .precision = precision_of(compute)})),
      params_(device, precision_of(compute), RuleSet(), [&](const ParamVisitor& visit) { stage_.params(visit); }),
      stream_(device, threads) {
  stream_.choices().set_measuring(false);  // every text length would need new measurements
  source.load_values(params_);
}

void Model::check_ids(std::span<const std::int32_t> ids, const std::string& where) const {
  for (std::int32_t id : ids) {
    if (id < 0 || id >= vocab())
      fail(Exit::bad_data, where, ": token id ", id, " is not in the model's vocabulary of ", vocab(),
           " tokens; use the tokenizer that the model was trained with");
  }
}

std::vector<float> Model::logits(std::span<const std::int32_t> ids) {
  auto length = std::ssize(ids);
  require(length >= 1 && length <= positions(), "cannot compute logits of ", length, " ids: the model has ",
          positions(), " positions");
  check_ids(ids, "logits");
  std::vector<std::int32_t> position_ids(ids.size());
  std::iota(position_ids.begin(), position_ids.end(), 0);
  const Buffer tokens(device(), ids.size_bytes()), positions(device(), ids.size_bytes()),
      out(device(), ids.size() * vocab() * sizeof(float));
  auto pass = [&](Ctx& ctx, const Chunk& chunk) {
    auto data = [&](const Buffer& memory) { return ctx.stream.is_meta() ? nullptr : memory.data(); };
    Batch batch;
    batch.tokens = Tensor(data(tokens), DType::i32, {1, length});
    batch.positions = Tensor(data(positions), DType::i32, {1, length});
    Chunk::Cache cache = chunk.make_cache();
    chunk.logits(ctx, Tensor(data(out), DType::f32, {length, vocab()}), batch, cache);
  };
  Workspace workspace(*this, {pass});
  Ctx ctx = workspace.context();
  copy_from_host(stream_, tokens.tensor(DType::i32, {length}), std::as_bytes(ids));
  copy_from_host(stream_, positions.tensor(DType::i32, {length}), position_ids);
  pass(ctx, chunk());
  return host_copy<float>(stream_, out.tensor(DType::f32, {length, vocab()}));
}

Workspace::Workspace(Model& model, const std::vector<Pass>& passes) : Workspace(model, measure(model, passes)) {}

Workspace::Workspace(Model& model, MetaModel::PassBytes bytes)
    : stream_(model.stream()),
      slot_(model.device(), "activations", bytes.slot),
      scratch_(model.device(), "scratch", bytes.scratch) {}

std::size_t Workspace::bytes_for(const Model& model, const std::vector<Pass>& passes) {
  const MetaModel::PassBytes bytes = measure(model, passes);
  return bytes.slot + bytes.scratch;
}

MetaModel::PassBytes Workspace::measure(const Model& model, const std::vector<Pass>& passes) {
  RunShape shape;
  shape.padded_vocab = vocab_rows(model.config());
  shape.threads = model.threads();
  shape.device = model.device();
  shape.precision = model.precision();
  shape.rules = {};
  return MetaModel(model.config(), {}, shape).measure(passes);
}

Ctx Workspace::context() {
  slot_.clear();
  scratch_.clear();
  return {stream_, &slot_, scratch_, groups_, false};
}

}  // namespace mtl
