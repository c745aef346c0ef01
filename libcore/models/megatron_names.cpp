#include "models/megatron_names.h"

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Which megatron-core transformer implementations use a name. `no` means that only older releases do.
enum class Core { no, both, local, transformer_engine };

struct NameRow {
  std::string_view megatron, canonical;
  Core core = Core::no;
  MegatronSplit weight = MegatronSplit::none, bias = MegatronSplit::none;
};

using enum MegatronSplit;

/// Modules of a layer.
constexpr NameRow kLayerModules[] = {
    {"input_layernorm", "norm1", Core::local},
    {"input_norm", "norm1"},
    {"self_attention.linear_qkv.layer_norm", "norm1", Core::transformer_engine},
    {"attention.query_key_value", "attention.qkv", Core::no, rows, rows},
    {"self_attention.query_key_value", "attention.qkv", Core::no, rows, rows},
    {"self_attention.linear_qkv", "attention.qkv", Core::both, rows, rows},
    {"self_attention.q_layernorm", "attention.q_norm", Core::both},
    {"self_attention.k_layernorm", "attention.k_norm", Core::both},
    {"attention.dense", "attention.out", Core::no, columns, none},
    {"self_attention.dense", "attention.out", Core::no, columns, none},
    {"self_attention.linear_proj", "attention.out", Core::both, columns, none},
    {"post_attention_layernorm", "norm2"},
    {"post_attention_norm", "norm2"},
    {"pre_mlp_layernorm", "norm2", Core::local},
    {"mlp.linear_fc1.layer_norm", "norm2", Core::transformer_engine},
    {"mlp.dense_h_to_4h", "mlp.up", Core::no, rows, rows},
    {"mlp.linear_fc1", "mlp.up", Core::both, rows, rows},
    {"mlp.dense_4h_to_h", "mlp.down", Core::no, columns, none},
    {"mlp.linear_fc2", "mlp.down", Core::both, columns, none},
};

/// Modules outside of layers.
constexpr NameRow kModules[] = {
    {"embedding.word_embeddings", "embedding.tokens", Core::both, rows},
    {"embedding.position_embeddings", "embedding.positions", Core::both},
    {"final_layernorm", "final_norm", Core::both},
    {"final_norm", "final_norm"},
    {"output_layer", "output", Core::both, rows},
    {"word_embeddings_for_head", "output", Core::no, rows},
};

/// Returns `name` without the final `kind` ("weight" or "bias") and the separator before it. The separator is a dot or,
/// in Transformer Engine's fused norms, an underscore. Returns "" if `name` does not end this way.
std::string_view module_of(std::string_view name, std::string_view kind) {
  if (!ends_with(name, kind)) return "";
  name.remove_suffix(kind.size());
  const bool is_fused = ends_with(name, ".layer_norm_");
  if (!is_fused && !ends_with(name, ".")) return "";
  return name.substr(0, name.size() - 1);
}

template <std::size_t N>
std::optional<MegatronName> find_row(const NameRow (&table)[N], std::string_view name) {
  for (std::string_view kind : {"weight", "bias"}) {
    const std::string_view module = module_of(name, kind);
    for (const NameRow& row : table) {
      if (module.empty() || row.megatron != module) continue;
      return MegatronName{cat(row.canonical, ".", kind), std::nullopt, kind == "weight" ? row.weight : row.bias};
    }
  }
  return std::nullopt;
}

template <std::size_t N>
std::string core_name(const NameRow (&table)[N], std::string_view module, std::string_view kind, bool is_engine) {
  for (const NameRow& row : table) {
    const bool is_used = row.core == Core::both || row.core == (is_engine ? Core::transformer_engine : Core::local);
    if (row.canonical == module && is_used)
      return cat(row.megatron, row.core == Core::transformer_engine ? "_" : ".", kind);
  }
  fail(Exit::failure, "megatron-core has no name for ", module);
}

}  // namespace

std::string megatron_core_name(std::string_view canonical, bool transformer_engine) {
  const std::size_t dot = canonical.rfind('.');
  const std::string_view kind = canonical.substr(dot + 1);
  std::string_view module = canonical.substr(0, dot);
  if (!take_prefix(module, "layers.")) {
    const std::string name = core_name(kModules, module, kind, transformer_engine);
    return module == "final_norm" ? "decoder." + name : name;
  }
  const std::size_t digits = module.find('.');
  return cat("decoder.layers.", module.substr(0, digits), ".",
             core_name(kLayerModules, module.substr(digits + 1), kind, transformer_engine));
}

std::optional<MegatronName> parse_megatron_name(std::string_view name) {
  take_prefix(name, "module.");
  take_prefix(name, "language_model.");
  if (!take_prefix(name, "transformer.") && !take_prefix(name, "encoder.")) take_prefix(name, "decoder.");
  if (!take_prefix(name, "layers.")) return find_row(kModules, name);
  const std::size_t digits = name.find('.');
  if (digits == 0 || digits > 9) return std::nullopt;  // also true if there is no dot
  const std::optional<std::int64_t> layer = parse_int(name.substr(0, digits));
  if (!layer || *layer < 0) return std::nullopt;
  std::optional<MegatronName> out = find_row(kLayerModules, name.substr(digits + 1));
  if (out) out->layer = layer;
  return out;
}

bool is_megatron_buffer(std::string_view name) {
  return ends_with(name, "._extra_state") || ends_with(name, "rotary_pos_emb.inv_freq");
}

}  // namespace mtl
